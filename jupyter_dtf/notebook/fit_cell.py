"""``%%dtf fit``: a cell runs in the notebook, as any other; what it trains by ``model.fit`` is trained on a cluster."""

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
    """While this holds, ``fit`` of every Keras model is ``train(model, **arguments)``, for who calls it in this thread.

    A class with a ``fit`` of its own keeps it: what that calls of Keras's is replaced. Other threads train as ever.
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
    """What Keras's ``fit`` returns for a model that a run has trained: its ``History``."""
    history = model.history
    history.set_model(model)
    history.set_params({"verbose": 0, "epochs": epochs, "steps": steps})
    return history


def execute(shell: Any, source: str) -> Any:
    """Run a cell's text in a shell's namespace, with the shell's own syntax; the value of its last expression.

    Raises what the cell raises. A semicolon at the end hides the value, as in any cell.
    """
    text = shell.transform_cell(source)
    # Under a name of its own, by which tracebacks find the lines.
    filename = shell.compile.cache(text, shell.execution_count, raw_code=source)
    tree = shell.transform_ast(ast.parse(text, filename))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, filename, "exec"), shell.user_global_ns, shell.user_ns)  # noqa: S102 - it is the cell
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), filename, "eval"), shell.user_global_ns, shell.user_ns)
    return None if shell.displayhook.semicolon_at_end_of_expression(source) else value
