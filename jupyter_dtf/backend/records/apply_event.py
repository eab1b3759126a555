"""Applies events to the summary of their run, and merges summaries. Pure.

The controller, the archive and every viewer apply the same rules.
"""

from __future__ import annotations

import msgspec

from ...schema.events import (
    FAST_AGAIN,
    PRUNED,
    SLOW,
    AnyEvent,
    CheckpointSaved,
    Note,
    Profiled,
    Progressed,
    RunChanged,
    SearchAsked,
    TaskChanged,
    TrialValued,
    UnknownEvent,
)
from ...schema.metrics import headline, without_form
from ...schema.notify import MOST_KEPT, Alarm
from ...schema.run import RunDescriptor, RunInfo, RunProfile, RunState, TaskInfo, TaskState
from ...schema.sizes import bytes_

BYTES = "byte"
"""The unit of a run's progress while its program is being sent."""


def apply_event(info: RunInfo, event: AnyEvent | UnknownEvent, task: TaskInfo | None = None) -> None:
    """Update ``info`` with one event. Points, output, most notes and unknown events do not change it.

    ``task``: the event's task in ``info``, if the caller has it; otherwise the task is looked up.
    """
    if isinstance(event, Note) and event.alarm:
        told = Alarm(about=event.alarm, title=event.title, text=event.text, task=event.task, time=event.time)
        info.alarms = [*info.alarms, told][-MOST_KEPT:]
    if isinstance(event, RunChanged):
        info.state = event.state
        info.message = event.message
        if event.state is RunState.RUNNING:
            info.started = event.time if info.started is None else info.started
        elif event.state.is_final:
            info.ended = event.time
        if event.state is RunState.RESTARTING or event.state.is_final:
            info.slow.clear()
        if event.state is RunState.LOST:
            for each in info.tasks:
                if not each.state.is_final:
                    each.state, each.message = TaskState.LOST, event.message
    elif isinstance(event, TaskChanged):
        _apply_task(event, task or _task_of(info, event.task))
    elif isinstance(event, Progressed):
        if BYTES in (event.progress.unit, info.progress.unit):
            info.message = _sent(info, event)
        info.progress = event.progress
    elif isinstance(event, Note) and event.metric:
        info.not_finite[without_form(event.metric)] = event.title
    elif isinstance(event, Note) and event.mark:
        if event.mark == SLOW:
            info.slow[event.task] = event.title
        elif event.mark == FAST_AGAIN:
            info.slow.pop(event.task, None)
        elif event.mark == PRUNED:
            info.pruned = True
    elif isinstance(event, CheckpointSaved):
        info.checkpoint = event.checkpoint
    elif isinstance(event, Profiled):
        info.profile = RunProfile(number=event.number, steps=event.steps, done=event.done, message=event.message)
    elif isinstance(event, TrialValued):
        info.values = dict(event.values)
    elif isinstance(event, SearchAsked) and info.trial is not None:
        info.trial.asked_more += event.more
        info.trial.asked_stop = info.trial.asked_stop or event.stop


def newest(summary: RunInfo, *others: RunInfo | None) -> RunInfo:
    """Merge summaries of one run into a deep copy of the one with the highest ``next_seq``.

    Fields that only points set are taken from the summary with the highest ``points_seq``.
    """
    known = [summary, *(other for other in others if other is not None)]
    found = copy_of(max(known, key=lambda info: (info.next_seq, info.points_seq)))
    told = max(known, key=lambda info: info.points_seq)
    if told.points_seq > found.points_seq:
        found.latest, found.sparkline, found.points_seq = dict(told.latest), list(told.sparkline), told.points_seq
        found.best = dict(told.best)
        found.sparkline_steps = list(told.sparkline_steps)
        found.headline = headline(found.latest, found.state.is_final, objectives_of(found))
    return found


def objectives_of(run: RunDescriptor) -> list[str]:
    """Return the metrics to show first for a run: the objectives of a trial; empty for any other run."""
    return list(run.trial.objectives) if run.trial is not None else []


def copy_of(info: RunInfo) -> RunInfo:
    """Return a deep copy of a summary."""
    return msgspec.convert(msgspec.to_builtins(info), RunInfo)


def _sent(info: RunInfo, event: Progressed) -> str:
    """Return the message of a run while its program is being sent; empty after that."""
    done, total = event.progress.done, event.progress.total
    if event.progress.unit != BYTES or info.state not in (RunState.PENDING, RunState.LAUNCHING):
        return ""
    seconds = event.time - info.created
    rate = f", {bytes_(done / seconds)}/s" if done and seconds > 0 and info.state is RunState.PENDING else ""
    return f"sending {bytes_(done)} of {bytes_(total)}{rate}"


def _task_of(info: RunInfo, name: str) -> TaskInfo:
    for task in info.tasks:
        if task.task == name:
            return task
    task = TaskInfo(task=name)
    info.tasks.append(task)
    return task


def _apply_task(event: TaskChanged, task: TaskInfo) -> None:
    if event.attempt < task.attempt:
        return  # late: the task has been restarted since
    if event.attempt > task.attempt:
        task.attempt, task.host, task.pid, task.endpoint = event.attempt, "", 0, ""
        task.gpus = []
    task.state = event.state
    task.host = event.host or task.host
    task.pid = event.pid or task.pid
    task.endpoint = event.endpoint or task.endpoint
    task.gpus = list(event.gpus) or task.gpus
    task.exit_code = event.exit_code
    task.signal = event.signal
    task.message = event.message
    task.traceback = event.traceback
