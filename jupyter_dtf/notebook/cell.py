"""A notebook cell as a program: finds the variables that it needs, and runs it in tasks as the notebook would."""

from __future__ import annotations

import ast
import builtins
import linecache
from collections.abc import Mapping, Sequence
from typing import Any

import cloudpickle
import msgspec

from ..client.found_origin import source_of
from ..schema.origin import Source

_IPYTHON = ("In", "Out", "exit", "get_ipython", "open", "quit")
"""Names that IPython defines in every notebook."""


class Cell(msgspec.Struct):
    """A cell that is ready to be sent."""

    source: str
    filename: str
    """The name of the cell in tracebacks."""
    names: dict[str, Any]
    """The notebook's variables that the cell uses, keyed by name."""
    left_behind: dict[str, str]
    """For each variable that the cell uses but that cannot be sent, the reason, keyed by the variable's name."""
    tasks: list[str]
    """The names of the tasks that run the cell, such as ``worker:1``; empty: all tasks."""

    @property
    def submitted_code(self) -> Source:
        """The code to record with the cell's run."""
        return source_of("cell", self.source)


class NotPicklable:
    """Replaces a value that cannot be sent back; shows the ``repr`` of the value."""

    def __init__(self, shown: str) -> None:
        self._shown = shown

    def __repr__(self) -> str:
        return self._shown


def prepare(source: str, namespace: Mapping[str, Any], filename: str = "<cell>", tasks: Sequence[str] = ()) -> Cell:
    """Return the cell with the variables in ``namespace`` that it uses. Raises SyntaxError."""
    tree = ast.parse(source, filename)
    wanted = names_used(tree) & namespace.keys()
    names = {name: namespace[name] for name in sorted(wanted) if name not in _IPYTHON}
    left_behind = {}
    if names and (reason := _why_not(names)) is not None:  # together, so that shared objects are pickled once
        for name, value in list(names.items()):
            if (reason := _why_not(value)) is not None:
                left_behind[name] = reason
                del names[name]
    return Cell(source=source, filename=filename, names=names, left_behind=left_behind, tasks=list(tasks))


def names_used(tree: ast.AST) -> set[str]:
    """Return every name that the code reads, regardless of scope."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store)}


def _why_not(value: Any) -> str | None:
    """Return why a value cannot be pickled; None if it can. Its arrays are not copied."""
    try:
        cloudpickle.dumps(value, protocol=5, buffer_callback=lambda buffer: False)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def run(cell: Cell, ctx: Any) -> Any:
    """Run the cell in a task, with ``ctx`` among its names. Return the value of its last expression.

    A value that cannot be sent back is replaced by a ``NotPicklable``. Return None if the cell does not end with an
    expression, or if this task is not among ``cell.tasks``.
    """
    if cell.tasks and ctx.task not in cell.tasks:
        return None
    tree = ast.parse(cell.source, cell.filename)
    lines = cell.source.splitlines(keepends=True)
    linecache.cache[cell.filename] = (len(cell.source), None, lines, cell.filename)  # for tracebacks
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins, **cell.names, "ctx": ctx}
    try:
        exec(compile(tree, cell.filename, "exec"), names)  # noqa: S102 - the user's own code, in its own process
        value = (
            eval(compile(ast.Expression(last.value), cell.filename, "eval"), names)
            if isinstance(last, ast.Expr)
            else None
        )
    except NameError as error:
        reason = cell.left_behind.get(error.name or "")
        if reason is None:
            raise
        raise NameError(
            f"name {error.name!r} is defined in the notebook but cannot be sent to a task ({reason})", name=error.name
        ).with_traceback(error.__traceback__) from None
    return value if _why_not(value) is None else NotPicklable(repr(value))
