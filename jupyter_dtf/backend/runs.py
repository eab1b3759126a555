"""One run as the controller keeps it: its description, its log of events, its tasks' results. No I/O."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ..schema.events import AnyEvent, Note, RunChanged, TaskChanged, decode_event, encode_event
from ..schema.launch import Outcome, TaskResult
from ..schema.run import RunInfo, RunRequest, RunState, TaskInfo, TaskState
from .info import apply_event
from .plan import PlannedTask

# Events that change nothing in a RunInfo, known by their tag: msgpack of {"type": tag, ...} after the byte of the map.
_LIGHT = (b"\xa4type\xa6points", b"\xa4type\xa3log")
_TO_COME = {TaskState.PENDING, TaskState.STARTING}
_IDLE = {TaskState.SERVING, TaskState.FINISHED}


class Run:
    """A run's life. Every change goes through ``record``, which numbers it and hands it to
    ``publish``; ``announce`` is called where the run took a step.
    """

    def __init__(
        self,
        info: RunInfo,
        request: RunRequest,
        publish: Callable[[Run, int, bytes], None],
        announce: Callable[[Run], None],
    ) -> None:
        self.info = info
        self.request = request
        self.log: list[bytes] = []
        self.planned: list[PlannedTask] = []
        self.results: dict[str, bytes] = {}
        self.outcomes: dict[str, Outcome] = {}
        self.ended = asyncio.Event()
        """The run is in a final state."""
        self.work_done = asyncio.Event()
        """No task works any more: those that are left only keep their servers up and may end."""
        self.decided = asyncio.Event()
        """Nothing more is to be waited for: a task failed, or all have ended."""
        self.tasks_ended = asyncio.Event()
        """No task's process is left."""
        self.first_failure: TaskInfo | None = None
        self._publish = publish
        self._announce = announce

    @property
    def id(self) -> str:
        return self.info.id

    @property
    def is_active(self) -> bool:
        return not self.info.state.is_final

    @property
    def is_stopping(self) -> bool:
        return self.info.state is RunState.STOPPING

    @property
    def only_serves(self) -> bool:
        """Whether every task waits in ``server.join()``: there is no work of the run's own, only that of clients."""
        return self.info.state is RunState.RUNNING and self._states() == {TaskState.SERVING}

    # -- the log ------------------------------------------------------------------------------------------------

    def record(self, event: AnyEvent) -> None:
        """Append an event that was made here."""
        apply_event(self.info, event)
        self._append(encode_event(event))

    def record_encoded(self, data: bytes) -> None:
        """Append an event as it came from a task; points and output are passed on without being decoded."""
        if not data.startswith(_LIGHT, 1):
            event = decode_event(data)
            if isinstance(event, TaskChanged):
                self._task_changed(event)
                return
            apply_event(self.info, event)
        self._append(data)

    def _append(self, data: bytes) -> None:
        seq = len(self.log)
        self.log.append(data)
        self.info.next_seq = seq + 1
        self._publish(self, seq, data)

    def note(self, level: str, title: str, text: str = "", task: str = "") -> None:
        self.record(Note(time=time.time(), level=level, title=title, text=text, task=task))

    # -- the run's state ----------------------------------------------------------------------------------------

    def to(self, state: RunState, message: str = "") -> None:
        """Take a step. Raises IllegalTransition if there is none from the present state."""
        self.info.state.step(state)
        self.record(RunChanged(time=time.time(), state=state, message=message))
        self._announce(self)
        if state is RunState.STOPPING:
            self._look()
        if state.is_final:
            self.ended.set()

    # -- the tasks' states --------------------------------------------------------------------------------------

    def place(self, planned: list[PlannedTask]) -> None:
        """Make known which tasks there are and where they will run."""
        self.planned = planned
        for task in planned:
            self.record(TaskChanged(time=time.time(), task=task.task, state=TaskState.PENDING, host=task.host.name))

    def task_info(self, task: str) -> TaskInfo:
        return next(info for info in self.info.tasks if info.task == task)

    def task_ended(self, result: TaskResult, *, lost: str = "") -> None:
        """A task's process is gone. ``lost`` says why where it was not its own doing (its host went away)."""
        info = self.task_info(result.task)
        if info.state.is_final:
            return
        outcome = result.outcome
        if outcome is not None and outcome.ok:
            state, message, traceback = TaskState.SUCCEEDED, "", ""
            self.results[result.task] = outcome.result
        elif outcome is not None and not result.signal:
            state, message, traceback = TaskState.FAILED, outcome.message, outcome.traceback
            self.outcomes[result.task] = outcome
        else:
            ended_by_us = self.first_failure is not None or self.is_stopping
            state = TaskState.STOPPED if ended_by_us and not lost else TaskState.FAILED
            message, traceback = lost or _how_it_ended(result, ended_by_us), ""
        self._task_changed(
            TaskChanged(
                time=time.time(),
                task=result.task,
                state=state,
                exit_code=result.exit_code,
                signal=result.signal,
                message=message,
                traceback=traceback,
            )
        )

    def _task_changed(self, event: TaskChanged) -> None:
        if self.info.state.is_final:
            return
        self.record(event)
        if event.state is TaskState.FAILED and self.first_failure is None:
            self.first_failure = self.task_info(event.task)
        if event.state is TaskState.RUNNING and self.info.state is RunState.LAUNCHING and not self._states() & _TO_COME:
            self.to(RunState.RUNNING)
        if self.only_serves:
            self._announce(self)
        self._look()

    def _states(self) -> set[TaskState]:
        return {task.state for task in self.info.tasks}

    def _look(self) -> None:
        """Set the events that the tasks' states have brought about."""
        left = {state for state in self._states() if not state.is_final}
        if not left:
            self.tasks_ended.set()
        if not left or self.first_failure is not None:
            self.decided.set()
        if self.decided.is_set() or self._work_is_done(left):
            self.work_done.set()

    def _work_is_done(self, left: set[TaskState]) -> bool:
        """Whether the tasks that are ``left`` only keep servers up, and nobody is to come for these.

        A run whose tasks have all only served from the beginning waits for clients, until it is stopped.
        """
        return left <= _IDLE and (self._states() != {TaskState.SERVING} or self.is_stopping)


def _how_it_ended(result: TaskResult, ended_by_us: bool) -> str:
    if result.signal:
        return f"ended with {result.signal}" if ended_by_us else f"died ({result.signal})"
    return f"died with exit status {result.exit_code}"
