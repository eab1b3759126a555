"""Inside a program: the same as ``ctx``, without handing it down."""

from __future__ import annotations

from ..backend.task.context import current


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
    """Put one point of each metric on the plots, as ``ctx.report``. Raises RuntimeError outside a task."""
    current().report(step, **metrics)
