"""Functions to call inside a program. They do the same as the methods of ``ctx``, but need no access to ``ctx``."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ..backend.task.context import current

if TYPE_CHECKING:
    from ..backend.task.collectives.ops import ProcessSet


def rank() -> int:
    """Return this task's rank.

    Returns:
        The rank, from 0: the chief first, then the workers, then all other tasks.

    Raises:
        RuntimeError: Outside a task.
    """
    return current().rank


def size() -> int:
    """Return the number of tasks of the run.

    Raises:
        RuntimeError: Outside a task.
    """
    return current().size


def is_chief() -> bool:
    """Return whether this task is the one that writes checkpoints and reports progress: rank 0.

    Raises:
        RuntimeError: Outside a task.
    """
    return current().is_chief


def report(step: float | None = None, **metrics: float) -> None:
    """Report the values of one or more metrics, to be plotted. This takes microseconds.

    Args:
        step: The step that the values belong to. None: the step after the one that was reported last.
        **metrics: A number for each metric.

    Raises:
        InvalidInput: If a value is not a number.
        RuntimeError: Outside a task.

    Example:
        >>> dtf.report(step, loss=0.5, accuracy=0.9)
    """
    current().report(step, **metrics)


def report_histogram(name: str, values: Any, step: float | None = None, bins: int = 30) -> None:
    """Report the distribution of some values, to be shown as a heat map over the steps.

    Values that are not finite are counted separately.

    Args:
        name: A name for the values.
        values: An array or tensor of any shape.
        step: The step that the values belong to. None: that of the last ``report``.
        bins: The number of bins.

    Raises:
        InvalidInput: If the values are not numbers.
        RuntimeError: Outside a task.
    """
    current().report_histogram(name, values, step, bins)


def report_image(name: str, image: Any, step: float | None = None, caption: str = "") -> None:
    """Report an image.

    Args:
        name: A name for the image.
        image: An array or tensor of shape ``[height, width]``, or ``[height, width, channels]`` with 1, 3 or 4
            channels, of ``uint8`` or of floats from 0 to 1; the bytes of a PNG file; or a Matplotlib figure.
        step: The step that the image belongs to. None: that of the last ``report``.
        caption: Text to show with the image.

    Raises:
        InvalidInput: If ``image`` has none of these forms, is wider or higher than 2048 pixels, or is larger than
            256 KiB as PNG.
        RuntimeError: Outside a task.
    """
    current().report_image(name, image, step, caption)


def report_text(name: str, text: str, step: float | None = None) -> None:
    """Report a string, such as a sample of the model's output. See ``ctx.report_text``.

    Args:
        name: A name for the string.
        text: The string, at most 64 KiB.
        step: The step that the string belongs to. None: that of the last ``report``.

    Raises:
        InvalidInput: If ``text`` is not a string, or is too long.
        RuntimeError: Outside a task.
    """
    current().report_text(name, text, step)


def report_table(name: str, table: Any, step: float | None = None) -> None:
    """Report a table. See ``ctx.report_table``.

    Args:
        name: A name for the table.
        table: A DataFrame (without its index), a mapping from columns to lists of values, or a list of mappings, one
            for each row.
        step: The step that the table belongs to. None: that of the last ``report``.

    Raises:
        InvalidInput: If ``table`` is not a table, or is too large.
        RuntimeError: Outside a task.
    """
    current().report_table(name, table, step)


def traced(step: int) -> AbstractContextManager[None]:
    """Mark a step, so that ``trace_steps`` and ``Run.profile`` can record it.

    Args:
        step: The number of the step, counted from 1.

    Returns:
        A context manager around the step.

    Raises:
        RuntimeError: Outside a task.

    Example:
        >>> for step, batch in enumerate(dataset, start=1):
        ...     with dtf.traced(step):
        ...         train_step(batch)
    """
    return current().traced(step)


def broadcast(value: Any, root_rank: int = 0, process_set: ProcessSet | None = None) -> Any:
    """Broadcast a tensor, or the values of variables, from one task to all others.

    This is a collective operation: every task has to call it.

    Args:
        value: A tensor, or a list of variables.
        root_rank: The rank of the task whose values are sent.
        process_set: The tasks that take part. None: all.

    Returns:
        The tensor of the root; None for a list of variables, to which the root's values are assigned.

    Raises:
        RuntimeError: Outside a task.
    """
    from ..backend.task.collectives import ops

    if isinstance(value, (list, tuple)) and value and all(hasattr(item, "assign") for item in value):
        return ops.broadcast_variables(value, root_rank, process_set)
    return ops.broadcast(value, root_rank, process_set=process_set)


def feed() -> Any:
    """Return this task's share of the data that was passed to ``cluster.run(..., feed=...)``.

    Returns:
        A ``tf.data.Dataset`` of batches. Each iteration is one pass over the data.

    Raises:
        InvalidInput: If the run has no ``feed``.
        RuntimeError: Outside a task.
    """
    return current().feed()
