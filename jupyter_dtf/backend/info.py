"""What an event changes in the description of its run. Pure; the controller and every viewer apply the same rules."""

from __future__ import annotations

from ..schema.events import AnyEvent, Progressed, RunChanged, TaskChanged
from ..schema.run import RunInfo, RunState, TaskInfo


def apply_event(info: RunInfo, event: AnyEvent) -> None:
    """Bring ``info`` up to date with one event. Points, output and notes leave it as it is."""
    if isinstance(event, RunChanged):
        info.state = event.state
        info.message = event.message
        if event.state is RunState.RUNNING:
            info.started = event.time
        elif event.state.is_final:
            info.ended = event.time
    elif isinstance(event, TaskChanged):
        _apply_task(info, event)
    elif isinstance(event, Progressed):
        info.progress = event.progress


def _apply_task(info: RunInfo, event: TaskChanged) -> None:
    for task in info.tasks:
        if task.task == event.task:
            break
    else:
        task = TaskInfo(task=event.task)
        info.tasks = [*info.tasks, task]
    task.state = event.state
    task.host = event.host or task.host
    task.pid = event.pid or task.pid
    task.endpoint = event.endpoint or task.endpoint
    task.exit_code = event.exit_code
    task.signal = event.signal
    task.message = event.message
    task.traceback = event.traceback
