"""Describes a run in one line, and lists its tasks."""

from __future__ import annotations

from ..backend.planning.launch_plan import ordered_tasks
from ..errors import NotFound
from ..schema.run import RunInfo
from . import wording

SHORT = 200
"""The maximum number of characters of a run's message in its ``repr``."""


def describe(info: RunInfo, separator: str = " · ", most: int | None = None) -> str:
    """Return a one-line summary of a run, with at most ``most`` characters of the first line of its message."""
    parts = [info.name, info.state.value]
    progress = info.progress
    if progress.epochs:
        parts.append(f"epoch {progress.epoch}/{progress.epochs}")
    if progress.total and not info.state.is_final:
        parts.append(f"{100 * progress.done / progress.total:.0f} %")
    parts += [f"{metric} {wording.metric_value(metric, value)}" for metric, value in info.headline.items()]
    parts += info.not_finite.values()
    if info.message:
        parts.append(info.message if most is None else _first_line(info.message, most))
    return separator.join(parts)


def _first_line(text: str, most: int) -> str:
    line, _, rest = text.strip().partition("\n")
    return f"{line[:most].rstrip()}..." if rest or len(line) > most else line


def task_names(info: RunInfo) -> list[str]:
    """Return the names of all tasks of a run in rank order, even before the tasks have been placed."""
    return [f"{job}:{index}" for job, index in ordered_tasks(info.jobs)]


def check_task(text: str, info: RunInfo) -> str:
    """Return the name of a task, such as ``worker:1``. Raises NotFound if the run has no such task."""
    names = task_names(info)
    if text not in names:
        raise NotFound(f"The task must be one of {', '.join(names)}, the tasks of {info.name}, got {text!r}")
    return text
