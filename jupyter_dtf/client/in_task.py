"""Inside a program: the same as ``ctx``, without handing it down."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ..backend.task.context import current

if TYPE_CHECKING:
    from ..backend.task.collectives.ops import ProcessSet


def rank() -> int:
    """This task's rank: the chief first, then the workers. Raises RuntimeError outside a task."""
    return current().rank


def size() -> int:
    """How many tasks the run has. Raises RuntimeError outside a task."""
    return current().size


def is_chief() -> bool:
    """Whether this task writes checkpoints and speaks for the others. Raises RuntimeError outside a task."""
    return current().is_chief


def report(step: float | None = None, **metrics: float) -> None:
    """Put one point of each of ``metrics`` (``loss=0.5``) on the plots, as ``ctx.report``.

    Raises RuntimeError outside a task.
    """
    current().report(step, **metrics)


def report_histogram(name: str, values: Any, step: float | None = None, bins: int = 30) -> None:
    """Show how ``values`` are distributed at ``step``, as ``ctx.report_histogram``.

    Raises RuntimeError outside a task, and InvalidInput for what are no numbers.
    """
    current().report_histogram(name, values, step, bins)


def report_image(name: str, image: Any, step: float | None = None, caption: str = "") -> None:
    """Show a picture of ``step``, as ``ctx.report_image``.

    Raises RuntimeError outside a task, and InvalidInput for what is no picture, or too large.
    """
    current().report_image(name, image, step, caption)


def report_text(name: str, text: str, step: float | None = None) -> None:
    """Show a text of ``step``, as ``ctx.report_text``.

    Raises RuntimeError outside a task, and InvalidInput for what is no text, or too long.
    """
    current().report_text(name, text, step)


def report_table(name: str, table: Any, step: float | None = None) -> None:
    """Show a table of ``step``, as ``ctx.report_table``.

    Raises RuntimeError outside a task, and InvalidInput for what is no table, or too large.
    """
    current().report_table(name, table, step)


def traced(step: int) -> AbstractContextManager[None]:
    """``with dtf.traced(step):`` says which step runs inside, as ``ctx.traced``. Raises RuntimeError outside a task."""
    return current().traced(step)


def broadcast(value: Any, root_rank: int = 0, process_set: ProcessSet | None = None) -> Any:
    """The tensor of the task whose rank is ``root_rank``, or, of a list of variables, give all that task's values.

    A collective: every task calls it. Raises RuntimeError outside a task.
    """
    from ..backend.task.collectives import ops

    if isinstance(value, (list, tuple)) and value and all(hasattr(item, "assign") for item in value):
        return ops.broadcast_variables(value, root_rank, process_set)
    return ops.broadcast(value, root_rank, process_set=process_set)


def feed() -> Any:
    """This task's shares of what the run is fed with, as ``ctx.feed()``. Raises InvalidInput if it is not fed."""
    return current().feed()
