"""Runs trials: as many at a time as the cluster has free slots for, each in its own processes."""

from __future__ import annotations

import contextlib
import math
import re
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from ...backend.planning.trial_places import place_jobs
from ...errors import ClusterLost, Conflict, DtfError, InvalidInput
from ...schema.arguments import check_integer, is_number, plain
from ...schema.run import MOST_SHARES, RunInfo, RunState, TaskState
from ...schema.run_options import RunOptions
from ...schema.search_trial import TrialInfo
from ...schema.sizes import number as shown
from ..run import Run
from ..submitting import request_of, submit

ROOM_S = 1.0
"""The interval at which to check whether the cluster has more slots, in seconds."""
SAME_FAILURES = 10
"""The number of consecutive failures with the same error after which no more trials are started."""
_FRAME = re.compile(r'\s+File ".*", line [0-9]+')
_KIND = re.compile(r"([A-Za-z_][\w.]*)(?:: |$)")
FIRST = "worker:0"
"""The task whose reports and result are used."""


@dataclass(frozen=True)
class Places:
    """The part of a cluster that each trial uses: the number of its tasks, and the number of slots that each task uses.

    With ``shares`` above 1, each task uses only the fraction 1/``shares`` of a slot, and ``each`` is 1.
    """

    tasks: int = 1
    each: int = 1
    shares: int = 1

    @classmethod
    def of(cls, devices: float | None, tasks: int) -> Places:
        """Divide ``devices_per_trial`` slots among ``tasks_per_trial`` tasks. Raises InvalidInput."""
        tasks = check_integer(tasks, "tasks_per_trial", 1)
        devices = tasks if devices is None else plain(devices)
        each = devices / tasks if is_number(devices) and 0 < devices < math.inf else 0.0
        shares = 1 / each if 0 < each < 1 else 1.0
        count = max(each, shares)
        if not each or shares > MOST_SHARES + 0.5 or abs(count - round(count)) > 1e-6:
            raise InvalidInput(
                "`devices_per_trial` must be a multiple of `tasks_per_trial`, or 1/2, 1/3, ... or "
                f"1/{MOST_SHARES} for one task, got {devices!r:.100} for {tasks} task{'s' * (tasks != 1)}",
                field="devices_per_trial",
            )
        return cls(tasks, max(1, round(each)), round(shares))


@dataclass(frozen=True)
class Next:
    """A trial to start: ``program`` is ``(function, arguments)`` as in ``cluster.run``.

    ``goes_on_from``: the directory of another trial's checkpoints, from which it continues.
    """

    number: int
    program: tuple[Any, ...]
    parameters: dict[str, Any]
    goes_on_from: str = ""


@dataclass(frozen=True)
class Ended:
    """A trial whose run has ended. ``result`` is the return value of its first task if the trial succeeded.

    ``is_cut_short``: the trial was stopped together with all others, so it was not rejected individually.
    """

    number: int
    info: RunInfo
    result: Any = None
    error: str = ""
    traceback: str = ""
    is_cut_short: bool = False

    @property
    def state(self) -> RunState:
        return self.info.state

    @property
    def seconds(self) -> float:
        """The duration of the trial, from when all of its tasks had started, in seconds; 0 if it never ran."""
        return max(0.0, (self.info.ended or 0.0) - self.info.started) if self.info.started else 0.0


class Source(Protocol):
    """Supplies trials and receives their results. All methods are called in the same thread."""

    def next(self) -> Next | None:
        """Return the next trial; None if there is none at the moment."""

    def started(self, number: int, run: Run) -> None:
        """Record that a trial has been started as this run."""

    def reported(self, number: int, points: Sequence[tuple[float, float]]) -> bool:
        """Record ``(step, value)`` points of the metric that a trial has reported. Return whether to prune it now.

        A trial may report more while it is being ended, but is pruned only once.
        """

    def ended(self, trial: Ended) -> None:
        """Record the outcome of a trial that has ended."""

    def cut_short(self, number: int) -> None:
        """Record that a trial from ``next`` was abandoned because driving the trials failed.

        Nothing else is reported for this trial.
        """

    def unwanted(self, number: int) -> None:
        """Record that a trial that has not started should not be started."""

    def more(self, count: int) -> None:
        """Allow ``count`` more trials."""


@dataclass
class _Running:
    run: Run
    seen: int = 0
    attempt: int = 0
    asked_more: int = 0


@dataclass
class TrialRuns:
    """Drives the trials of ``source`` on ``cluster``, in the thread that calls ``drive``.

    ``options`` apply to every run; ``metric`` is the metric whose reports are passed to ``source``. ``ahead``: for each
    trial that can run at the same time, the number of further trials that are sent to the cluster in advance, where
    they wait for a free slot.
    """

    cluster: Any
    source: Source
    name: str
    options: RunOptions
    places: Places
    kind: str
    metric: str = ""
    modules: Sequence[Any] = ()
    ahead: int = 0
    search: TrialInfo | None = None
    """The information about the search that each trial's run records, without the number of the trial."""
    stop_at: float | None = None
    """The time at which to stop, on the monotonic clock."""
    message: str = ""
    """Why no more trials were started; empty if all were."""
    is_stopped: bool = False
    _running: dict[str, tuple[int, _Running]] = field(default_factory=dict)
    _begun: set[int] = field(default_factory=set)
    """Trials from the source that have not been reported to it as ended yet."""
    _changed: set[str] = field(default_factory=set)
    _has_changed: threading.Condition = field(default_factory=threading.Condition)
    _to_stop: set[int] = field(default_factory=set)
    _stopped: set[int] = field(default_factory=set)
    _last_kind: tuple[str, ...] = ()
    _same: int = 0

    # -- called from other threads ------------------------------------------------------------------------------

    def stop(self, message: str = "It was stopped") -> None:
        """Start no more trials and end the running ones."""
        with self._has_changed:
            self.message = self.message or message
            self.is_stopped = True
            self._has_changed.notify()

    def stop_one(self, number: int) -> None:
        """End one trial. The others continue."""
        with self._has_changed:
            self._to_stop.add(number)
            self._has_changed.notify()

    # -- in the driving thread ----------------------------------------------------------------------------------

    def drive(self) -> None:
        """Run trials until none is left, or all have been stopped. Raises DtfError, for example ClusterLost."""
        unsubscribe = self.cluster._session.hub.subscribe(self._on_change)
        try:
            while True:
                self._fill()
                if not self._running:
                    return
                for run_id in self._wait():
                    self._look(run_id)
        except BaseException:
            self._end_all()
            with contextlib.suppress(Exception):  # raise the original error, not one that follows from it
                for number in sorted(self._begun):
                    self.source.cut_short(number)
            raise
        finally:
            unsubscribe()

    def _on_change(self, run_id: str) -> None:
        """Record that a run has changed. Called by the hub in any thread, for any run."""
        with self._has_changed:
            self._changed.add(run_id)
            if run_id in self._running:
                self._has_changed.notify()

    def _wait(self) -> list[str]:
        """Wait for changes and return the runs that changed. Also stop the trials that should be stopped."""
        with self._has_changed:
            left = ROOM_S if self.stop_at is None else min(ROOM_S, max(0.0, self.stop_at - time.monotonic()))
            if not (self.is_stopped or self._to_stop or self._changed & self._running.keys()):
                self._has_changed.wait(left)
            changed = [run_id for run_id in self._running if run_id in self._changed]
            self._changed.clear()
            ending, self._to_stop = self._to_stop, set()
        for number in ending:
            self._stop_one(number)
        if self.stop_at is not None and time.monotonic() >= self.stop_at:
            self.stop("Its time limit was reached")
        if self.is_stopped:
            self._end_all()
            with self._has_changed:
                if not changed and not self._changed:
                    self._has_changed.wait(ROOM_S)
                return [run_id for run_id in self._running if run_id in self._changed or run_id in changed]
        return changed

    def _stop_one(self, number: int) -> None:
        running = next((running for own, running in self._running.values() if own == number), None)
        if running is None:
            self.source.unwanted(number)
        else:
            self._stopped.add(number)
            _stop(running.run)

    def _room(self) -> int:
        """Return how many trials may be on the cluster at the same time."""
        there = sum(place_jobs(self.cluster.jobs).values())
        most = there * self.places.shares // (self.places.tasks * self.places.each)
        return max(1, most) * (1 + self.ahead)

    def _fill(self) -> None:
        if self.is_stopped or (self.stop_at is not None and time.monotonic() >= self.stop_at):
            return
        room = self._room()
        while len(self._running) < room and not self.is_stopped:
            trial = self.source.next()
            if trial is None:
                return
            self._begun.add(trial.number)
            self._start(trial)

    def _start(self, trial: Next) -> None:
        options = msgspec.structs.replace(
            self.options, name=f"{self.name} {trial.number}", jobs={"worker": self.places.tasks}
        )
        request = request_of(
            options,
            kind=self.kind,
            places=self.places.each,
            place_shares=self.places.shares,
            parameters=shown_parameters(trial.parameters),
            resume=trial.goes_on_from,
            trial=self.search
            and msgspec.structs.replace(self.search, number=trial.number, in_words=in_words(trial.parameters)),
        )
        function, job = trial.program
        program = self.cluster._with_modules(self.modules, (function, (job,), {}))
        run = submit(self.cluster.name, request, program, Run)
        with self._has_changed:
            self._running[run.id] = trial.number, _Running(run)
            self._changed.add(run.id)  # for changes before the subscription
        self.source.started(trial.number, run)

    def _look(self, run_id: str) -> None:
        number, running = self._running[run_id]
        info = running.run.info
        is_over = info.state.is_final
        if info.trial is not None:
            self._hear(running, info.trial)
        if self.metric and (points := self._points(running)) and self.source.reported(number, points) and not is_over:
            step, value = points[-1]
            _stop(running.run, f"Pruned after step {shown(step)}: {self.metric} {shown(value)} is not promising enough")
        if is_over:
            with self._has_changed:
                del self._running[run_id]
            self._end(number, running.run, info)

    def _hear(self, running: _Running, trial: TrialInfo) -> None:
        """Handle the requests of a viewer of the search."""
        more, running.asked_more = trial.asked_more - running.asked_more, trial.asked_more
        if more and self.search is not None:
            self.search = msgspec.structs.replace(self.search, most=self.search.most + more)
            self.source.more(more)
        if trial.asked_stop and not self.is_stopped:
            self.stop("It was stopped by a viewer")

    def _points(self, running: _Running) -> list[tuple[float, float]]:
        """Return the points of the metric that the first task has reported since the last call.

        In a new attempt, these are all points of that attempt.
        """
        record = self.cluster._session.hub.record(running.run.id)
        series = record.series.get((self.metric, FIRST))
        if series is None:
            return []
        if series.newest_attempt != running.attempt:
            running.attempt, running.seen = series.newest_attempt, 0
        steps, values = series.step, series.value
        begin, running.seen = running.seen, min(len(steps), len(values))
        return list(zip(steps[begin : running.seen].tolist(), values[begin : running.seen].tolist(), strict=True))

    def _end(self, number: int, run: Run, info: RunInfo) -> None:
        result, error, traceback = None, "", ""
        if info.state is RunState.LOST:
            raise ClusterLost(f"The cluster {self.cluster.name} is lost: {info.message}")
        if info.state is RunState.SUCCEEDED:
            try:
                result = run._result_of(FIRST)
            except ClusterLost:
                raise
            except Exception as raised:  # the result cannot be unpickled here
                problem = raised.__cause__ or raised
                error = f"Its return value cannot be read: {type(problem).__name__}: {problem}"
        elif info.state is RunState.FAILED:
            failed = next((task for task in info.tasks if task.state is TaskState.FAILED), None)
            error = (failed.message if failed else "") or info.message
            traceback = failed.traceback if failed else ""
        self._count(error, traceback)
        is_cut_short = info.state is RunState.STOPPED and self.is_stopped and number not in self._stopped
        self.source.ended(Ended(number, info, result, error, traceback, is_cut_short))
        self._begun.discard(number)

    def _count(self, error: str, traceback: str) -> None:
        kind = kind_of(error, traceback)
        self._same = self._same + 1 if error and kind == self._last_kind else int(bool(error))
        self._last_kind = kind
        if self._same == SAME_FAILURES:
            self.stop(f"{SAME_FAILURES} trials in a row failed with the same error: {error}")

    def _end_all(self) -> None:
        for _number, running in list(self._running.values()):
            try:
                running.run.stop(now=True)
            except DtfError:  # the cluster is gone, and the run with it
                continue


def kind_of(error: str, traceback: str) -> tuple[str, ...]:
    """Return a key for an error: its type and the lines of code that led to it, but not the values in its text.

    Without a traceback, this is ``error`` itself.
    """
    lines = traceback.splitlines()
    where = [line.strip() for line in lines if _FRAME.match(line)]
    if not where:
        return (error,)
    kinds = [found[1] for line in lines if (found := _KIND.match(line))]
    return (kinds[-1] if kinds else error, *where)


def _stop(run: Run, pruned: str = "") -> None:
    """End a trial unless it has just ended on its own. ``pruned``: why it was pruned, if it was."""
    with contextlib.suppress(Conflict):
        if not run.info.state.is_final:
            run._session.call(lambda fleet: fleet.stop_run(run.id, now=True, pruned=pruned))


def shown_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters as shown in a run: values that are not plain are replaced by their ``repr``."""
    words = in_words(parameters)
    return {name: f"{value!r:.200}" if name in words else value for name, value in parameters.items()}


def in_words(parameters: dict[str, Any]) -> list[str]:
    """Return the names of the parameters whose values are not plain."""
    return [name for name, value in parameters.items() if not isinstance(value, (str, int, float, bool, type(None)))]


def new_id() -> str:
    """Return an id for a new search."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"


def begin_thread(work: Callable[[], None], name: str) -> threading.Thread:
    """Run ``work`` in a thread that ends with this process."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread
