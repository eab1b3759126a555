"""``%%dtf fit``: the cell runs in the notebook like any other, but its calls to ``model.fit`` train on a cluster."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Train = Callable[..., Any]
_instead: ContextVar[Train | None] = ContextVar("jupyter_dtf_fit", default=None)


@contextmanager
def fits_by(train: Train) -> Iterator[None]:
    """Within the context, let ``fit`` of every Keras model call ``train(model, **arguments)``, in this thread only.

    A class that overrides ``fit`` keeps its own method. Only Keras's ``fit``, which that method may call, is replaced.
    """
    import keras

    owner = next(base for base in keras.Model.__mro__ if "fit" in vars(base))
    of_keras = vars(owner)["fit"]
    signature = inspect.signature(of_keras)

    @functools.wraps(of_keras)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        instead = _instead.get()
        if instead is None:
            return of_keras(self, *args, **kwargs)
        return instead(self, **dict(list(signature.bind(self, *args, **kwargs).arguments.items())[1:]))

    token = _instead.set(train)
    owner.fit = fit
    try:
        yield
    finally:
        owner.fit = of_keras
        _instead.reset(token)


def history_of(model: Any, epochs: int, steps: int | None) -> Any:
    """Return the ``History`` that Keras's ``fit`` would return for a model that a run has trained."""
    history = model.history
    history.set_model(model)
    history.set_params({"verbose": 0, "epochs": epochs, "steps": steps})
    return history


def execute(shell: Any, source: str) -> Any:
    """Run a cell in an IPython shell's namespace and return the value of its last expression; None if there is none.

    The cell may use IPython's syntax. As in any cell, a semicolon at the end hides the value. Raises any error that the
    cell raises.
    """
    text = shell.transform_cell(source)
    # Cached under a unique name, under which tracebacks find the source lines.
    filename = shell.compile.cache(text, shell.execution_count, raw_code=source)
    tree = shell.transform_ast(ast.parse(text, filename))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, filename, "exec"), shell.user_global_ns, shell.user_ns)  # noqa: S102 - it is the cell
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), filename, "eval"), shell.user_global_ns, shell.user_ns)
    return None if shell.displayhook.semicolon_at_end_of_expression(source) else value
