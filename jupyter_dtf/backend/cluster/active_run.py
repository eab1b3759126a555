"""One run in the controller: its summary, its log of events, and its tasks' results. No I/O."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection

from ...errors import Conflict, IllegalTransition
from ...schema.cluster import CPU_JOBS
from ...schema.events import (
    MEDIA_EVENTS,
    POINTS,
    AnyEvent,
    EpochEnded,
    Note,
    Progressed,
    RunChanged,
    TaskChanged,
    TracedSteps,
    UnknownEvent,
    decode_event,
    encode_event,
)
from ...schema.launch import ENDED_BEFORE, Outcome, TaskResult, TaskSpec
from ...schema.metrics import without_form
from ...schema.notify import END, NAN
from ...schema.run import RunDescriptor, RunInfo, RunRequest, RunState, TaskInfo, TaskState
from ..machine.processes import signal_words
from ..planning.launch_plan import PlannedTask
from ..records.apply_event import apply_event
from ..records.run_log import RunLog, source_of
from .alarms import Alarms
from .profile_state import Profile
from .recovery import Recovery

logger = logging.getLogger(__name__)

_STATES = ("run", "task")
"""The types of the events that change the state of a run or a task."""
_AGAIN = RunState.RESTARTING
_TO_COME = {TaskState.PENDING, TaskState.STARTING}
_ENDED = {RunState.SUCCEEDED: "has succeeded", RunState.FAILED: "has failed", RunState.STOPPED: "was stopped"}
_IDLE = {TaskState.SERVING, TaskState.FINISHED}
_SAID_BY_TASKS = {TaskState.RUNNING, TaskState.SERVING, TaskState.FINISHED}


class Run:
    """One run and its life cycle.

    Every change is an event: ``record`` applies the event to ``info``, appends it to the log, and passes its number and
    its encoded form to ``publish``. ``on_step`` is called after each change of the run's state.
    """

    def __init__(
        self,
        run: RunDescriptor,
        request: RunRequest,
        publish: Callable[[Run, int, bytes], None],
        on_step: Callable[[Run], None],
    ) -> None:
        self.info = RunInfo.of(run)
        """The run's summary, computed from its events. Points and output are not decoded here and do not contribute."""
        self.request = request
        self.log = RunLog()
        self.planned: list[PlannedTask] = []
        self.gang: list[PlannedTask] = []
        """The planned tasks, and the lost tasks that the run continues without. A lost task keeps its last place."""
        self.by_host: dict[str, list[PlannedTask]] = {}
        """The planned tasks, keyed by the address of their host."""
        self.first_places: list[PlannedTask] = []
        """The places of all tasks in the first attempt."""
        self.results: dict[str, bytes] = {}
        self.outcomes: dict[str, Outcome] = {}
        self.ended = asyncio.Event()
        """Set when the run is in a final state."""
        self.work_done = asyncio.Event()
        """Set when no task has work left: the remaining tasks only keep their servers running and may end."""
        self.decided = asyncio.Event()
        """Set when the outcome of the attempt is decided: a task has failed, or all tasks have ended."""
        self.tasks_ended = asyncio.Event()
        """Set when the processes of all tasks have ended."""
        self.is_there = asyncio.Event()
        """Set when the program of every task of the attempt has started."""
        self.ended_before: dict[str, bytes] = {}
        """Results of tasks that should have joined this attempt but had already succeeded in the previous one.

        They are pickled, keyed by task, and recorded only in an attempt that began without the loss of a task.
        """
        self.has_ended_before = asyncio.Event()
        """Set when ``ended_before`` has a new entry."""
        self._going_on: frozenset[str] = frozenset()
        self.first_failure: TaskInfo | None = None
        """The first task that failed in the current attempt."""
        self.attempt = 0
        """The number of restarts so far, whether of all tasks or of one task alone."""
        self.unlost = 0
        """The number of restarts that were due to a pause or to growth.

        They do not count toward the limit on restarts.
        """
        self.continued = asyncio.Event()
        """Set when a paused run should continue, or when the run has ended."""
        self.gang_attempt = 0
        """The number of the last attempt in which all tasks were started together."""
        self.specs: dict[str, TaskSpec] = {}
        """The specs that the gang's tasks had when all of them were last started together."""
        self.to_rejoin: asyncio.Queue[str] = asyncio.Queue()
        """The lost tasks that must be restarted alone. Their state is ``PENDING``."""
        self.without: set[str] = set()
        """The lost tasks that will rejoin when a host has free resources.

        They are ``FAILED`` but keep their last place.
        """
        self._cannot_rejoin: set[str] = set()
        self._died: set[str] = set()  # tasks of this attempt that ended without an error in their program
        self._told_of: dict[str, float] = {}  # metric -> the first step at which it was not finite
        self._recovery: Recovery | None = None
        self.profile: Profile | None = None
        """The most recently requested profile."""
        self.alarms = Alarms(request.notify)
        self._tasks: dict[str, TaskInfo] = {}
        self._in_state: Counter[TaskState] = Counter()
        self._publish = publish
        self._on_step = on_step

    @property
    def id(self) -> str:
        return self.info.id

    @property
    def is_active(self) -> bool:
        return not self.info.state.is_final

    @property
    def is_stopping(self) -> bool:
        """Whether the run's tasks have been asked to end, including for a pause."""
        return self.info.state in (RunState.STOPPING, RunState.PAUSING)

    @property
    def is_pausing(self) -> bool:
        return self.info.state is RunState.PAUSING

    @property
    def has_failed(self) -> bool:
        """Whether a task has failed because of an error in its program."""
        return self.first_failure is not None and self.first_failure.task not in self._died

    @property
    def is_done(self) -> bool:
        """Whether the run reports its progress as complete, and no task has failed."""
        progress = self.info.progress
        return self.first_failure is None and 0 < progress.total <= progress.done

    @property
    def begins_again(self) -> bool:
        """Whether the tasks should be restarted: one was lost without an error in its program, and restarts remain.

        False while the run is being stopped or paused.
        """
        lost = self.first_failure is not None and self.first_failure.task in self._died
        return lost and not self.is_stopping and self.may_restart

    @property
    def may_restart(self) -> bool:
        """Whether any of the restarts that the request allows remain."""
        return self.attempt - self.unlost < self.request.restarts.max_restarts

    @property
    def attempt_words(self) -> str:
        """The current attempt in words: ``attempt 2 of 4``."""
        return self.words_of(self.attempt)

    def words_of(self, attempt: int) -> str:
        """Return the number of an attempt (from 0) in words, such as ``attempt 2 of 4`` for 1."""
        return f"attempt {attempt + 1} of {self.request.restarts.attempts + self.unlost}"

    @property
    def only_serves(self) -> bool:
        """Whether every task waits in ``server.join()``, so the run does no work of its own and only serves clients."""
        return self.info.state is RunState.RUNNING and self._states() == {TaskState.SERVING}

    # -- the log ------------------------------------------------------------------------------------------------

    def record(self, event: AnyEvent) -> None:
        """Apply an event that the controller has created, and append it to the log."""
        self._apply(event)
        self._append(encode_event(event))

    def _apply(self, event: AnyEvent | UnknownEvent) -> None:
        if not isinstance(event, TaskChanged):
            apply_event(self.info, event)
            return
        known = self._tasks.get(event.task)
        before = known.state if known is not None else None
        apply_event(self.info, event, known)
        task = self._tasks.setdefault(event.task, known or self.info.tasks[-1])
        if before is not task.state:
            self._in_state[task.state] += 1
            if before is not None:
                self._in_state[before] -= 1

    def record_encoded(self, data: bytes) -> None:
        """Append an encoded event from a task to the log. Points and output are passed on without being decoded.

        Raises:
            msgspec.MsgspecError: If ``data`` is not an encoded event.
            Conflict: If a task reports a change of state that only its host may report (the task's end) or only the
                cluster may make (the run's state), or that cannot be read.
        """
        if (source := source_of(data)) is not None:
            self._tell_of(self.log.append(data, source=source), data)
            return
        if data.startswith(POINTS, 1):
            self._append(data)
            return
        event = decode_event(data)
        _check_may_tell(event)
        if isinstance(event, TaskChanged):
            self._task_changed(event)
            return
        if isinstance(event, Note) and event.metric:
            if not self._is_first(event):
                return
            if self.alarms.wanted.nan:
                event.alarm = NAN
                data = encode_event(event)
        if self._recovery is not None and isinstance(event, Note) and self._recovery.takes(event):
            return  # recorded once the cost of the loss is known
        self._apply(event)
        self._append(data, is_media=isinstance(event, MEDIA_EVENTS))
        self._tell_cost(event)
        if isinstance(event, TracedSteps) and self.profile is not None:
            self.profile.hear(event)
            self._look_at_profile()
        if isinstance(event, EpochEnded) and (word := self.alarms.epoch(event)) is not None:
            self.alarm(*word)

    def _tell_cost(self, event: AnyEvent | UnknownEvent) -> None:
        """Add a note on the cost of the last loss if ``event`` reports the first step after it."""
        if self._recovery is None or not isinstance(event, Progressed) or event.attempt != self.attempt:
            return
        if (words := self._recovery.follows(event)) is not None:
            self._recovery = None
            self.note("info", *words)

    def _is_first(self, note: Note) -> bool:
        """Return whether a note is the first to report a metric as not finite, or names an earlier step than known.

        Each task sends its own note on the same problem, and a later note may be about an earlier step.
        """
        metric, step = without_form(note.metric), note.step or 0.0
        known = self._told_of.get(metric)
        if known is not None and known <= step:
            return False
        self._told_of[metric] = step
        return True

    def _append(self, data: bytes, *, is_media: bool = False) -> None:
        self._tell_of(self.log.append(data, is_media=is_media), data)

    def _tell_of(self, seq: int, data: bytes) -> None:
        self.info.next_seq = seq + 1
        self._tell(lambda: self._publish(self, seq, data))

    def _tell(self, work: Callable[[], None]) -> None:
        """Call a callback of another component. Its exceptions are logged and do not affect the run."""
        try:
            work()
        except Exception:
            logger.exception("A change to run %s could not be published", self.id)

    def note(self, level: str, title: str, text: str = "", task: str = "", mark: str = "") -> None:
        note = Note(time=time.time(), attempt=self.attempt, level=level, title=title, text=text, task=task, mark=mark)
        self.record(note)

    def alarm(self, about: str, title: str, text: str = "", task: str = "") -> None:
        """Raise a requested alarm. Unless it is about the run's end, it is a warning and is marked on the plots."""
        level, mark = ("info", "") if about == END else ("warning", about)
        note = Note(
            time=time.time(),
            attempt=self.attempt,
            level=level,
            title=title,
            text=text,
            task=task,
            mark=mark,
            alarm=about,
        )
        self.record(note)

    def _look_at_profile(self, over: str = "") -> None:
        """Record the current profile's result if the profile is complete, or if ``over`` says why it will not be."""
        if self.profile is None or (said := self.profile.verdict(self.info.tasks, over)) is None:
            return
        if said.message:
            self.note("warning", "No step was traced", said.message)
        else:
            self.note("info", *self.profile.words())
        self.record(said)

    # -- the run's state ----------------------------------------------------------------------------------------

    def to(self, state: RunState, message: str = "") -> None:
        """Change the run's state. Raises IllegalTransition if that is not possible from the current state."""
        self.info.state.step(state)
        if self._recovery is not None and self._recovery.where is not None and (state.is_final or state is _AGAIN):
            where, self._recovery.where = self._recovery.where, None
            self.record(where)  # no step has followed the loss
        if state is RunState.RESTARTING and self.first_failure is not None and self._recovery is None:
            self._recovery = Recovery(self.first_failure.task, time.time(), self.info.progress.done)
        if state.is_final and self.alarms.wanted.end:  # before the end: no event is read after it
            self.alarm(END, f"{self.info.name} {_ENDED.get(state, state.value)}", message)
        if state.is_final or state in (RunState.RESTARTING, RunState.PAUSED):
            ended = "has ended" if state.is_final else f"is {state.value}"
            self._look_at_profile(f"The run {ended}, so the requested steps could not be traced")
        self.record(RunChanged(time=time.time(), state=state, message=message))
        self._step()
        if self.is_stopping:
            self._look()
        if state.is_final:
            self.continued.set()
            self.log.end()
            self.ended.set()

    def _step(self) -> None:
        self._tell(lambda: self._on_step(self))

    # -- one task alone -----------------------------------------------------------------------------------------

    def rejoins(self, task: str) -> bool:
        """Return whether a task that has died should be restarted alone while the others continue."""
        alone = self.request.rejoins and self.info.state is RunState.RUNNING and self.first_failure is None
        if not alone or task in self._cannot_rejoin or task not in self._died:
            return False
        if not self.may_restart or task == self.planned[0].task:
            return False
        servers = [self._tasks[each.task] for each in self.planned if each.job == "ps"]
        return task not in [each.task for each in servers] and not any(each.state.is_final for each in servers)

    def _lose_alone(self, task: str) -> None:
        """Begin a new attempt of one lost task. The task is pending until it has a place."""
        self._died.discard(task)
        lost = self.task_info(task)
        why, was, where = predicate(lost.message), self.words_of(lost.attempt), f", on {lost.host}" * bool(lost.host)
        self.attempt += 1
        text = f"In {was}{where}. The other tasks continue, and this one is restarted: {self.attempt_words}"
        self.note("warning", f"{task} {why}", text, task)
        pending = TaskChanged(time=time.time(), task=task, attempt=self.attempt, state=TaskState.PENDING)
        self.record(pending)
        self.to_rejoin.put_nowait(task)

    def may_go_on_without(self, task: str) -> bool:
        """Return whether enough workers remain if a lost worker is not restarted."""
        least = self.request.restarts.min_workers
        workers = {each.task for each in self.planned if each.job not in CPU_JOBS}
        return least is not None and len(workers - self.without - {task}) >= least

    def go_on_without(self, task: str, why: str = "") -> None:
        """Record that no host has free resources for a lost task that could rejoin. The other tasks continue."""
        self.without.add(task)
        self.note(
            "warning", f"There is no room for {task}", f"The other tasks continue without it. {why}".strip(), task
        )
        self._has_no_room(task, self.task_info(task).attempt)
        self._look()

    def _has_no_room(self, task: str, attempt: int) -> None:
        word = "there is no room for it"
        self.record(TaskChanged(time=time.time(), task=task, attempt=attempt, state=TaskState.FAILED, message=word))

    def take_back(self, task: str) -> None:
        """Begin a new attempt of a task for which a host has free resources again. The limit on restarts ignores it."""
        self.without.discard(task)
        self.attempt += 1
        self.unlost += 1
        self.note("info", f"There is room for {task} again", f"It is started: {self.attempt_words}", task)
        self.record(TaskChanged(time=time.time(), task=task, attempt=self.attempt, state=TaskState.PENDING))

    def reseat(self, planned: PlannedTask) -> None:
        """Replace the place of one task."""

        def with_it(tasks: list[PlannedTask]) -> list[PlannedTask]:
            return [planned if each.task == planned.task else each for each in tasks]

        self.gang, self.planned = with_it(self.gang), with_it(self.planned)
        for address in self.by_host:
            self.by_host[address] = [each for each in self.by_host[address] if each.task != planned.task]
        self.by_host.setdefault(planned.host.address, []).append(planned)

    def cannot_rejoin(self, task: str, attempt: int, why: str) -> None:
        """Record that one task could not be restarted alone, so the whole gang counts as lost."""
        self._cannot_rejoin.add(task)
        self.task_ended(TaskResult(task=task, attempt=attempt), lost=why)

    # -- the tasks' states --------------------------------------------------------------------------------------

    def place(self, planned: list[PlannedTask]) -> None:
        """Record the run's tasks and where they will run."""
        self.planned = planned
        now = {task.task: task for task in planned}
        self.gang = [now.get(task.task, task) for task in self.gang] or planned
        self.by_host = {}
        self.first_places = self.first_places or planned
        for task in planned:
            self.by_host.setdefault(task.host.address, []).append(task)
            self.record(
                TaskChanged(
                    time=time.time(),
                    task=task.task,
                    attempt=self.attempt,
                    state=TaskState.PENDING,
                    host=task.host.name,
                )
            )

    def place_again(self, planned: list[PlannedTask], going_on: Collection[str] = ()) -> None:
        """Begin a new attempt of all tasks. Surviving tasks keep their processes; the others get new ones.

        Args:
            planned: The tasks and their places.
            going_on: The surviving tasks, given only if no task was lost: if they end before they join the attempt,
                their results count.

        Raises:
            IllegalTransition: If the run is not restarting.
        """
        if self.info.state is not RunState.RESTARTING:
            raise IllegalTransition(f"A run must be restarting to begin another attempt, got {self.info.state.value!r}")
        self.attempt += 1
        self.gang_attempt = self.attempt
        self.first_failure = None
        self._died.clear()
        self._cannot_rejoin.clear()
        self.results.clear()
        self.outcomes.clear()
        self.ended_before.clear()
        self._going_on = frozenset(going_on)
        self.without.clear()
        for event in (self.work_done, self.decided, self.tasks_ended, self.is_there, self.has_ended_before):
            event.clear()
        self.place(planned)
        for task in self.missing:
            if self.task_info(task).state is not TaskState.FAILED:  # left out because a lost task has its place
                self._has_no_room(task, self.attempt)

    def end_as_before(self) -> None:
        """Finish the run: all tasks that should have joined have already succeeded, so the rest are not needed."""
        self.first_failure = None
        self._died.clear()
        self.results.update(self.ended_before)
        self.to(RunState.RUNNING, "the work was done before the other tasks had started")
        for task in self.planned:
            info = self.task_info(task.task)
            if not info.state.is_final:
                state = TaskState.SUCCEEDED if task.task in self.ended_before else TaskState.STOPPED
                self._task_changed(
                    TaskChanged(time=time.time(), task=task.task, attempt=info.attempt, state=state, host=info.host)
                )

    @property
    def missing(self) -> list[str]:
        """The tasks that the run has continued without, because no host had free resources for them."""
        there = {task.task for task in self.planned}
        return [task.task for task in self.gang if task.task not in there] if there else []

    @property
    def moves(self) -> bool:
        """Whether the run can grow only by restarting all of its tasks from a checkpoint.

        This is the case if it writes checkpoints, and no process of this attempt has joined from an earlier one.
        """
        return self.info.goes_on and not any(spec.joins for spec in self.specs.values())

    def leave_places(self) -> None:
        """Release the slots of the run's tasks, which have ended."""
        self.planned = []
        self.by_host = {}

    def task_info(self, task: str) -> TaskInfo:
        return self._tasks[task]

    def task_ended(self, result: TaskResult, *, lost: str = "") -> None:
        """Record that a task's process is gone. ``lost`` is the cause if it was external, such as a lost host."""
        info = self.task_info(result.task)
        outcome = result.outcome
        has_ended_before = result.message == ENDED_BEFORE or result.attempt == self.attempt - 1
        if outcome is not None and outcome.ok and has_ended_before and result.task in self._going_on:
            self.ended_before[result.task] = outcome.result
            self.has_ended_before.set()
            return
        if info.state.is_final or result.attempt not in (None, info.attempt):
            return
        if outcome is not None and outcome.ok and result.message != ENDED_BEFORE:
            state, message, traceback = TaskState.SUCCEEDED, "", ""
            self.results[result.task] = outcome.result
        elif outcome is not None and not result.signal and not result.message:
            state, message, traceback = TaskState.FAILED, outcome.message, outcome.traceback
            self.outcomes[result.task] = outcome
            if outcome.peer_lost:
                self._died.add(result.task)
                self._cannot_rejoin.add(result.task)  # another task was lost, not this one
        else:
            ended_by_us = self.first_failure is not None or self.is_stopping
            state = TaskState.STOPPED if ended_by_us and not lost else TaskState.FAILED
            message, traceback = lost or result.message or _how_it_ended(result, ended_by_us), ""
            if result.exit_code is None:  # otherwise, the program itself exited
                self._died.add(result.task)
        self._task_changed(
            TaskChanged(
                time=time.time(),
                task=result.task,
                attempt=info.attempt,
                state=state,
                host=info.host,
                exit_code=result.exit_code,
                signal=result.signal,
                message=message,
                traceback=traceback,
            )
        )

    def _task_changed(self, event: TaskChanged) -> None:
        if self.info.state.is_final:
            return
        info = self._tasks.get(event.task)
        if info is not None and event.attempt < info.attempt:
            return  # from a process that has been replaced
        if info is not None:
            info.state.step(event.state, again=event.attempt > info.attempt)
        self.record(event)
        if event.state is TaskState.FAILED and self.rejoins(event.task):
            self._lose_alone(event.task)
        elif event.state is TaskState.FAILED and self.first_failure is None:
            self.first_failure = self.task_info(event.task)
        if event.state is TaskState.RUNNING and self._is_complete():
            self.to(RunState.RUNNING, self.attempt_words if self.attempt else "")
            self.is_there.set()
        if self.only_serves:
            self._step()
        self._look_at_profile()
        self._look()

    def _is_complete(self) -> bool:
        """Return whether the run is being started or restarted, and all of its tasks have started."""
        is_new = self.info.state is RunState.RESTARTING and self.first_failure is None
        return (self.info.state is RunState.LAUNCHING or is_new) and not self._states() & _TO_COME

    def _states(self) -> set[TaskState]:
        return {state for state, count in self._in_state.items() if count}

    def _look(self) -> None:
        """Set the asyncio events whose conditions the tasks' states now meet."""
        left = {state for state in self._states() if not state.is_final}
        if not left:
            self.tasks_ended.set()
        if not left or self.first_failure is not None:
            self.decided.set()
        if self.decided.is_set() or self._work_is_done(left):
            self.work_done.set()

    def _work_is_done(self, left: set[TaskState]) -> bool:
        """Return whether no task has work left: the remaining ones only keep servers running that no task will use.

        ``left`` contains the states of these tasks. A run in which every task has only served from the beginning waits
        for clients until it is stopped.
        """
        return left <= _IDLE and (self._states() != {TaskState.SERVING} or self.is_stopping)


def _check_may_tell(event: AnyEvent | UnknownEvent) -> None:
    """Raise Conflict for a change of state that a task must not report, or that cannot be read."""
    if isinstance(event, RunChanged):
        raise Conflict(f"Only the cluster can set the state of a run, but a task reported {event.state.value!r}")
    if isinstance(event, TaskChanged) and event.state not in _SAID_BY_TASKS:
        raise Conflict(f"Only a host can report the state {event.state.value!r}, but the task {event.task} reported it")
    if isinstance(event, UnknownEvent) and event.type in _STATES:
        raise Conflict(f"The cluster could not read a change of state that a task reported: {event.why}")


def predicate(message: str) -> str:
    """Return a predicate that says how a task failed, to follow the task's name."""
    return message if message.startswith(("died", "was killed", "was not started", "has ")) else f"failed: {message}"


def _how_it_ended(result: TaskResult, ended_by_us: bool) -> str:
    if result.signal:
        words = signal_words(result.signal)
        return f"ended with {words}" if ended_by_us else f"died ({words})"
    return f"died with exit status {result.exit_code}"
