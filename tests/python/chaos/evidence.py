"""Examines what an ended run has left behind: its log, points and files. The functions yield lines that say what is
wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import jupyter_dtf as dtf
from jupyter_dtf.backend.machine import paths
from jupyter_dtf.backend.records.run_record import RunRecord
from jupyter_dtf.backend.records.store import Store
from jupyter_dtf.errors import IllegalTransition, NotFound
from jupyter_dtf.schema.events import AnyEvent, Note, RunChanged, TaskChanged, UnknownEvent, decode_event
from jupyter_dtf.schema.run import RunInfo, RunState, TaskInfo, TaskState

from .. import patience
from .outcomes import Promise, has_defined_weights, promised
from .processes import living
from .programs import SAVED_EVERY
from .schedule import APART, STEPS, Round


def stored(run: dtf.Run) -> tuple[RunInfo, list[tuple[int, bytes]]]:
    """Return the run and its numbered events as the store has them, once everything that this process has received is
    there. For a lost run, these are the events that its cluster had written when it died, and the state ``lost``.
    """
    store = Store(paths.store_path())
    try:

        def is_all_there() -> bool:
            try:
                info = store.run(run.id)
            except NotFound:
                return False
            return info.next_seq >= run.info.next_seq or info.state is RunState.LOST

        patience.until(is_all_there, lambda: f"the store has all of {run}")
        return store.run(run.id), list(store.events(run.id))
    finally:
        store.close()


def wrong_in_log(numbered: list[tuple[int, bytes]]) -> Iterator[str]:
    """Check that events are numbered without gaps and can be read, and that the run and its tasks change states only in
    permitted ways.
    """
    if [seq for seq, _ in numbered] != list(range(len(numbered))):
        yield f"events have gaps: {[seq for seq, _ in numbered]}"
    state, tasks = RunState.PENDING, dict[str, TaskInfo]()
    for seq, data in numbered:
        event = decode_event(data)
        try:
            if isinstance(event, UnknownEvent):
                yield f"event {seq} cannot be read: {event}"
            elif isinstance(event, RunChanged):
                state = state.step(event.state)
            elif isinstance(event, TaskChanged):
                _follow(tasks, event)
        except IllegalTransition as error:
            yield f"event {seq}: {error}"


def _follow(tasks: dict[str, TaskInfo], event: TaskChanged) -> None:
    known = tasks.get(event.task)
    if known is not None:
        if event.attempt < known.attempt:
            raise IllegalTransition(f"{event.task} goes back from attempt {known.attempt} to {event.attempt}")
        has_place = known.state is event.state is TaskState.PENDING  # reported again once it has a host
        if not (has_place and event.attempt == known.attempt):
            known.state.step(event.state, again=event.attempt > known.attempt)
    tasks[event.task] = TaskInfo(task=event.task, state=event.state, attempt=event.attempt)


def wrong_in_story(this: Round, run: dtf.Run, events: list[AnyEvent], tasks: set[str]) -> Iterator[str]:
    """Compare the course of the run with what is promised: its end, its final message, the number of restarts, and the
    warnings about losses.

    ``tasks`` contains the task to which something was done, if it was a task.
    """
    promise, info = promised(this), run.info
    if info.state.value != promise.ends:
        yield f"it {info.state.value}, and not {promise.ends}: {info.message!r}"
    if promise.message and not re.search(promise.message, info.message):
        yield f"it does not say {promise.message!r}, but {info.message!r}"
    restarts = [event for event in events if isinstance(event, RunChanged) and event.state is RunState.RESTARTING]
    least, most = promise.restarts
    if not least <= len(restarts) <= most:
        yield f"started again {len(restarts)} times, and not {least} to {most}"
    notes = [event for event in events if isinstance(event, Note)]
    alone = sum("The other tasks continue, and this one is restarted" in note.text for note in notes)
    least, most = promise.alone
    if not least <= alone <= most and promise.ends == "succeeded":
        yield f"single tasks are started again {alone} times, and not {least} to {most}"
    yield from _wrong_in_losses(restarts, notes, alone)
    yield from _wrong_in_loss(promise, events, tasks)
    counted = max((task.attempt for task in info.tasks), default=0)
    if promise.ends == "succeeded" and counted != len(restarts) + alone:
        yield f"attempts are counted to {counted} after {len(restarts)} restarts, and {alone} of single tasks"


def _wrong_in_losses(restarts: list[RunChanged], notes: list[Note], alone: int) -> Iterator[str]:
    """Check that every restart has a warning that says which task was lost, why, in which attempt and where. A restart
    after a pause has none, because no task was lost.

    ``alone`` is the number of restarts of single tasks.
    """
    pauses = 0
    for number, restart in enumerate(restarts, 1):
        if restart.message == "continues after a pause":
            pauses += 1
            continue
        why = restart.message.rpartition(": attempt ")[0]
        told = [note for note in notes if note.title == why and note.level == "warning" and note.task]
        attempts = "|".join(str(number + more) for more in range(alone + 1))
        if not any(re.match(rf"In attempt (?:{attempts}) of {4 + pauses}, on \S+\. ", note.text) for note in told):
            yield f"restart {number} ({restart.message!r}) is not told of: {[note.title for note in notes]}"


def _wrong_in_loss(promise: Promise, events: list[AnyEvent], tasks: set[str]) -> Iterator[str]:
    """Check that there is a warning about the loss that the round has caused."""
    wanted = promise.loss.replace("{task}", f"(?:{'|'.join(sorted(tasks))})")
    warnings = [event.title for event in events if isinstance(event, Note) and event.level == "warning"]
    if wanted and not any(re.fullmatch(wanted, title) for title in warnings):
        yield f"no warning says {wanted!r}: {warnings}"


def wrong_in_points(this: Round, run: dtf.Run, numbered: list[tuple[int, bytes]]) -> Iterator[str]:
    """Check that no points are missing, and that the stored points are those that this process has received."""
    record = RunRecord.replay(run.info.descriptor, numbered)
    if record.lost:
        yield f"points are lost: {record.lost}"
    seen = run._session.hub.record(run.id)
    if record.info.state is not seen.info.state:
        yield f"stored is {record.info}, and seen {seen.info}"
    if run.status != "lost" and record.info.tasks != seen.info.tasks:
        yield f"stored are {record.info.tasks}, and seen {seen.info.tasks}"
    for key, series in record.series.items():
        live, count = seen.series.get(key), None if run.status != "lost" else len(series.step)
        if live is None or not np.array_equal(live.value[:count], series.value):
            yield f"the points of {key} are not those that were seen"
    for (metric, task), series in record.series.items():
        if metric == "loss" and this.strategy != "ps, backup":
            steps = series.step.astype(int).tolist()
            missing = set(range(1, steps[-1] + 1)) - set(steps)
            if this.strategy == "program" and task != "worker:0":
                # Tasks do not wait for each other: one that is behind may resume from a later checkpoint of the chief.
                missing = {
                    step for before, step in pairwise([0, *steps]) if step - before > 1 and step % SAVED_EVERY != 1
                }
            if sorted(set(steps)) != steps or len(missing) > _never_told(this, run, task):
                yield f"{task} has the steps {steps}"
    if run.status == "succeeded" and ("loss", "worker:0") not in record.series:
        yield f"the chief has no points: {list(record.series)}"
    if run.status == "succeeded" and this.strategy != "ps, backup":
        last = record.series["loss", "worker:0"].step[-1]
        if not STEPS - _never_told(this, run, "worker:0") <= last <= STEPS:
            yield f"the chief's last step is {last:g}, and not {STEPS}"


def _never_told(this: Round, run: dtf.Run, task: str) -> int:
    """Return how many points of a task may be missing. If the other tasks continue, the step in which a task has died
    is not repeated if the others have completed it, or if the servers have its gradient.
    """
    (attempt,) = [info.attempt for info in run.info.tasks if info.task == task]
    return attempt if this.strategy in ("allreduce", *APART) else 0


def wrong_in_weights(this: Round, weights: list[Any], expected: list[Any]) -> Iterator[str]:
    """Compare the weights with those of an undisturbed run."""
    if not all(np.isfinite(each).all() for each in weights):
        yield "weights are not finite"
    elif has_defined_weights(this):
        apart = [float(np.max(np.abs(ours - theirs))) for ours, theirs in zip(weights, expected, strict=True)]
        close = [
            np.allclose(ours, theirs, rtol=1e-4, atol=1e-6) for ours, theirs in zip(weights, expected, strict=True)
        ]
        if not all(close):
            yield f"weights are apart by {apart}"


def wrong_in_remains(run: dtf.Run, events: Iterable[AnyEvent], where: tuple[Path, Path]) -> Iterator[str]:
    """Check that the run has left no processes and no files behind."""
    pids = {event.pid for event in events if isinstance(event, TaskChanged) and event.pid}

    def left() -> list[Any]:
        return [*living(pids).values(), *(path for directory in where for path in directory.glob(f"{run.id}*"))]

    try:
        patience.until(lambda: not left(), lambda: f"the end of {left()}")
    except AssertionError as error:
        yield f"left: {error}"
    half = [path.name for path in (Path(run.info.run_dir) / "checkpoints").glob(".*")]
    if half and run.status == "succeeded":
        yield f"checkpoints are half there: {half}"
