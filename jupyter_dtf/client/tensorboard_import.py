"""Imports TensorBoard's log directories as runs. The ``tensorboard`` package is only imported when it is needed."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..backend.machine import paths
from ..backend.records.archive import summarize
from ..backend.records.store import Store
from ..errors import InvalidInput
from ..schema.arguments import check_path
from ..schema.events import AnyEvent, Point, Points, RunChanged, encode_event, encode_points
from ..schema.printable import printable
from ..schema.run import RunInfo, RunState
from .lookup import run as held_run
from .run import Run
from .tensorboard import EVENT_FILE, needed

_TASK = "worker:0"
_BATCH = 1000
_PARTS = {"train": "", "validation": "val_"}
"""The subdirectories that ``keras.callbacks.TensorBoard`` creates, and the prefixes of their metrics here."""


def import_tensorboard(directory: str | os.PathLike[str], name: str = "") -> list[Run]:
    """Import the scalars of a TensorBoard log directory as runs.

    Each directory with event files becomes a run. The directories ``train`` and ``validation`` that
    ``keras.callbacks.TensorBoard`` writes side by side become one run; its validation metrics begin with ``val_``.

    Args:
        directory: The log directory, which is searched recursively.
        name: The name of the run, or the beginning of the names of several runs. By default, the names of their
            directories.

    Returns:
        The imported runs, oldest first.

    Raises:
        InvalidInput: If there are no scalars in the directory.
        Unavailable: If TensorBoard is not installed.
    """
    root = check_path(directory, "directory").expanduser()
    needed()
    found = list(_found(root))
    ids = []
    if found:
        store = Store(paths.store_path())
        try:
            ids = [_keep(store, *one, name=_named(root, one[0], name)) for one in found]
        finally:
            store.close()
    if not ids:
        raise InvalidInput(
            "`directory` must contain event files (events.out.tfevents...) with scalars, directly or in a "
            f"subdirectory, got {root}, which has none",
            field="directory",
        )
    return [held_run(run_id) for run_id in ids]


def _named(root: Path, directory: Path, name: str) -> str:
    below = "" if directory == root else directory.relative_to(root).as_posix()
    return printable(" ".join(filter(None, [name or root.resolve().name, below])), 200)


def _found(root: Path) -> Iterator[tuple[Path, list[Point]]]:
    """Yield each directory of a run with its points, oldest first."""
    parts: dict[Path, dict[Path, str]] = {}
    for own in sorted({file.parent for file in root.rglob(f"{EVENT_FILE}*")}):
        is_part = own.name in _PARTS and own != root
        parts.setdefault(own.parent if is_part else own, {})[own] = _PARTS[own.name] if is_part else ""
    runs = [(directory, _points(of)) for directory, of in parts.items()]
    yield from sorted((one for one in runs if one[1]), key=lambda one: one[1][0].time)


def _points(directories: dict[Path, str]) -> list[Point]:
    """Return all scalars of some directories as points, ordered by time.

    The scalars of the same step and directory are in one point.
    """
    found: list[Point] = []
    for directory, prefix in directories.items():
        steps: dict[int, Point] = {}
        for step, seconds, tag, value in _scalars(directory):
            point = steps.setdefault(step, Point(float(step), seconds, {}))
            point.values[printable(prefix + tag, 200)] = value
        found += steps.values()
    return sorted(found, key=lambda point: (point.time, point.step))


def _scalars(directory: Path) -> Iterator[tuple[int, float, str, float]]:
    """Yield (step, seconds since 1970, tag, value) for every scalar, as written by TensorFlow 1 or 2."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    events: Any = EventAccumulator(str(directory), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()
    for tag in tags["scalars"]:
        for event in events.Scalars(tag):
            yield event.step, event.wall_time, tag, float(event.value)
    for tag in tags["tensors"]:
        if events.SummaryMetadata(tag).plugin_data.plugin_name == "scalars":
            for event in events.Tensors(tag):
                yield event.step, event.wall_time, tag, float(tensor_util.make_ndarray(event.tensor_proto))


def _keep(store: Store, directory: Path, points: list[Point], *, name: str) -> str:
    """Store a run that has ended and return its id."""
    now = time.time()
    began, ended = points[0].time, points[-1].time
    events: list[AnyEvent] = [RunChanged(time=began, state=RunState.RUNNING)]
    for first in range(0, len(points), _BATCH):
        batch = points[first : first + _BATCH]
        events.append(Points(time=began, task=_TASK, first=first, count=len(batch), data=encode_points(batch)))
    events.append(RunChanged(time=ended, state=RunState.SUCCEEDED))
    run_id = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{secrets.token_hex(3)}"
    info = RunInfo(
        id=run_id,
        name=name,
        cluster="",
        kind="imported",
        jobs={"worker": 1},
        created=now,  # not the time of the run, because the store may delete old runs
        parameters={"imported_from": printable(str(directory.resolve()))},
        state=RunState.SUCCEEDED,
        started=began,
        ended=ended,
        next_seq=len(events),
    )
    store.write([info], ((run_id, seq, encode_event(event)) for seq, event in enumerate(events)))
    summarize(store, run_id)
    return run_id
