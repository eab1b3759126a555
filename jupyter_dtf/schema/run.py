"""Runs, each of which is one execution of a program on a cluster: life cycle, tasks, and public summary."""

from __future__ import annotations

import enum
import hashlib
from typing import Any

import msgspec

from ..errors import Conflict, IllegalTransition, InvalidInput
from .base import PeerStruct, convert
from .checkpoint import CheckpointInfo
from .cluster import FIRST_JOBS
from .notify import Alarm
from .origin import Origin, Source
from .printable import check_word
from .restart import NEVER, Restart
from .run_marks import RunMarks
from .run_options import RunOptions
from .search_trial import TrialInfo

MOST_SHARES = 64
"""The largest number of tasks that can share a slot."""


class RunState(str, enum.Enum):
    """The states of a run. ``RunState.step`` defines the transitions."""

    PENDING = "pending"  # accepted; waiting for hosts
    LAUNCHING = "launching"  # ports reserved, tasks being forked
    RUNNING = "running"  # every task has started
    RESTARTING = "restarting"  # tasks were lost and are being restarted
    PAUSING = "pausing"  # a pause was requested; tasks are writing a checkpoint and ending
    PAUSED = "paused"  # has no tasks until the user continues it
    STOPPING = "stopping"  # a stop was requested; tasks are ending
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"  # the cluster was lost during the run

    @property
    def is_final(self) -> bool:
        return not _RUN_STEPS[self]

    def step(self, to: RunState) -> RunState:
        """Return the state ``to``. Raises IllegalTransition if there is no transition to it from this state."""
        if to not in _RUN_STEPS[self]:
            legal = ", ".join(sorted(s.value for s in _RUN_STEPS[self])) or "nothing"
            raise IllegalTransition(f"A run that is {self.value} can only become {legal}, got {to.value}")
        return to


_ENDS = frozenset({RunState.FAILED, RunState.LOST})
_RUN_STEPS: dict[RunState, frozenset[RunState]] = {
    RunState.PENDING: frozenset({RunState.LAUNCHING, RunState.STOPPED}) | _ENDS,
    RunState.LAUNCHING: frozenset({RunState.RUNNING, RunState.RESTARTING, RunState.STOPPING}) | _ENDS,
    RunState.RUNNING: frozenset({RunState.RESTARTING, RunState.SUCCEEDED, RunState.STOPPING, RunState.PAUSING}) | _ENDS,
    RunState.RESTARTING: frozenset({RunState.RUNNING, RunState.RESTARTING, RunState.STOPPING, RunState.PAUSED}) | _ENDS,
    RunState.PAUSING: frozenset({RunState.PAUSED, RunState.STOPPING, RunState.STOPPED, RunState.SUCCEEDED}) | _ENDS,
    RunState.PAUSED: frozenset({RunState.RESTARTING, RunState.STOPPED}) | _ENDS,
    RunState.STOPPING: frozenset({RunState.STOPPED, RunState.SUCCEEDED}) | _ENDS,
    RunState.SUCCEEDED: frozenset(),
    RunState.FAILED: frozenset(),
    RunState.STOPPED: frozenset(),
    RunState.LOST: frozenset(),
}


FINAL_STATES = tuple(state for state in RunState if state.is_final)
"""The final states."""


class TaskState(str, enum.Enum):
    """The states of a task's process."""

    PENDING = "pending"
    STARTING = "starting"  # forked
    RUNNING = "running"  # the user's program has started
    SERVING = "serving"  # the program waits in server.join() until the other tasks have ended
    FINISHED = "finished"  # the program has ended; its server continues for tasks that have not
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # an exception, a nonzero exit status, or a signal from outside the run
    STOPPED = "stopped"  # ended because the run was stopped or another task failed
    LOST = "lost"  # the cluster was lost while the task was running

    @property
    def is_final(self) -> bool:
        return self in (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED, TaskState.LOST)

    def step(self, to: TaskState, *, again: bool = False) -> TaskState:
        """Return the state ``to``. With ``again``, a new attempt may start from any state. Raises IllegalTransition."""
        legal = _BEGINS if again else frozenset() if self.is_final else _TASK_STEPS
        if to not in legal:
            names = ", ".join(sorted(state.value for state in legal)) or "nothing, unless it is restarted"
            raise IllegalTransition(f"A task that is {self.value} can only become {names}, got {to.value}")
        return to


_TASK_STEPS = frozenset(TaskState) - {TaskState.PENDING}
"""The states that may follow any non-final state, because the reports of a task and those of its host arrive on
different paths."""
_BEGINS = frozenset({TaskState.PENDING, TaskState.STARTING, TaskState.RUNNING, TaskState.FAILED})
"""The possible first states of a new attempt. An attempt that could not be started begins as failed."""


class TaskInfo(PeerStruct):
    """One task of a run. ``task`` is its short name, such as ``worker:1``."""

    task: str
    state: TaskState = TaskState.PENDING
    attempt: int = 0
    """The number of times that the task was restarted."""
    host: str = ""
    """The name of the Dask worker on which the task runs."""
    pid: int = 0
    endpoint: str = ""
    """``host:port``, which is reserved for the task's TensorFlow server for the duration of the run."""
    gpus: list[str] = []
    """The task's GPUs, as named in CUDA_VISIBLE_DEVICES: numbers on its machine, or UUIDs."""
    exit_code: int | None = None
    signal: str = ""
    """The name of the signal that ended the task, such as ``SIGKILL``, if any."""
    message: str = ""
    """The last line of the traceback, or the reason why the task was ended."""
    traceback: str = ""


class Progress(PeerStruct):
    """The progress of a run: ``done`` of ``total`` units; ``total`` is 0 if unknown."""

    done: int = 0
    total: int = 0
    unit: str = "step"
    epoch: int = 0
    """The current epoch, counted from 1; 0 if the program has no epochs."""
    epochs: int = 0


class Best(PeerStruct):
    """The best value of a metric, and when it was reached."""

    value: float
    step: float = 0.0
    epoch: int = 0
    """The epoch, counted from 1; 0 if there are no epochs."""


class RunProfile(PeerStruct):
    """The newest profile that was requested while a run was active."""

    number: int
    """The number of the profile in the run, counted from 1."""
    steps: int
    done: bool = False
    message: str = ""
    """The reason why there is no trace, if the profile has ended without one."""


class RunDescriptor(PeerStruct):
    """The facts about a run that are known at submission and do not change. Everything else comes from its events."""

    id: str
    name: str
    cluster: str
    kind: str = "program"
    """``fit``, ``predict``, ``evaluate``, ``program``, ``script``, ``servers``, ``profile`` or ``trial``."""
    strategy: str = ""
    jobs: dict[str, int] = {}
    created: float = 0.0
    """Seconds since 1970, like all times."""
    parameters: dict[str, Any] = {}
    """The user's settings, such as batch size, epochs and optimizer, which are shown in the dashboard."""
    run_dir: str = ""
    goes_on: bool = False
    """Whether the run writes checkpoints from which it, or another run, can continue."""
    resumed_from: str = ""
    """The id of the run from whose checkpoint this run continues; empty if there is none, or it is unknown."""
    origin: Origin = msgspec.field(default_factory=Origin)
    """The provenance of the run; empty if the run predates this field."""
    trial: TrialInfo | None = None
    """The trial that the run executes, with its search; None if the run is not a trial."""
    cluster_id: str = ""
    """The identity of the run's cluster. The cluster's name is not sufficient, because a later cluster may have the
    same name. Empty if the run predates this field."""


def cluster_id(token: str) -> str:
    """Return the identity by which runs refer to a cluster: a digest of the token that names its directories."""
    return hashlib.sha256(token.encode()).hexdigest()[:16]


class RunInfo(RunDescriptor):
    """The summary of a run: its descriptor and the effect of its events before ``next_seq``, without output and points.

    Only ``backend/records/apply_event.py`` and ``run_record.py`` create summaries. Copies that are stored or sent are
    caches: of two summaries, the one with the higher ``next_seq`` is more recent.
    """

    state: RunState = RunState.PENDING
    message: str = ""
    """One line that states why the run is waiting, or why it failed."""
    started: float | None = None
    ended: float | None = None
    tasks: list[TaskInfo] = []
    """The tasks; empty until they have been placed on hosts."""
    progress: Progress = msgspec.field(default_factory=Progress)
    latest: dict[str, float] = {}
    """The latest value of each metric, averaged over the tasks that report it."""
    headline: dict[str, float] = {}
    """The part of ``latest`` shown in lists, most important first: a trial's objective, otherwise the loss, or the
    first metric that the program reports; never a machine metric. For a run that has ended, these are the last epoch's
    values."""
    not_finite: dict[str, str] = {}
    """The metrics that became non-finite, each with a sentence such as ``loss became NaN at step 8 on worker:1``."""
    best: dict[str, Best] = {}
    """The best value so far of each metric in ``headline`` whose direction is known, over epochs, or over points if the
    program has no epochs. Complete only in a run's record, and in summaries to which points were applied."""
    slow: dict[str, str] = {}
    """The tasks for which the other tasks currently wait in every step, each with a sentence about it."""
    alarms: list[Alarm] = []
    """The newest notifications, at most ``MOST_KEPT``, oldest first."""
    checkpoint: CheckpointInfo | None = None
    """The latest checkpoint; None if there is none yet."""
    profile: RunProfile | None = None
    """The newest profile that was requested; None if there was no request."""
    sparkline: list[float] = []
    """At most 60 values of a trial's objective, or of the loss (or the first metric in ``headline``), oldest first."""
    sparkline_steps: list[float] = []
    """The steps of the first and the last value of the sparkline; empty if the sparkline is empty."""
    values: dict[str, float] = {}
    """The values that a trial's program returned for its objectives. If it returned none, ``latest`` is used."""
    pruned: bool = False
    """Whether a trial was ended because it was unpromising."""
    marks: RunMarks = msgspec.field(default_factory=RunMarks)
    """The name, tags and note set by the user. They are not events; the hub of each viewer adds them."""
    next_seq: int = 0
    """The sequence number of the first event that has not been applied."""
    points_seq: int = 0
    """Like ``next_seq``, but for the values that are derived from points: ``latest``, ``headline`` and the sparkline. 0
    if points were not decoded, as in the controller, which passes them on as bytes."""

    @classmethod
    def of(cls, run: RunDescriptor) -> RunInfo:
        """Create the summary of a run before its first event."""
        return cls(**{name: getattr(run, name) for name in RunDescriptor.__struct_fields__})

    @property
    def descriptor(self) -> RunDescriptor:
        """The part of the summary that does not come from events."""
        return RunDescriptor(**{name: getattr(self, name) for name in RunDescriptor.__struct_fields__})


def check_running(info: RunInfo, done: str) -> None:
    """Raise Conflict unless a run is running, as it must be to be ``done``, such as ``paused``."""
    if info.state is not RunState.RUNNING:
        raise Conflict(f"A run must be running to be {done}, but {info.id} is {info.state.value}")


def read_run(raw: Any) -> RunInfo:
    """Decode the summary of a run from a peer or from the store. Raises InvalidInput.

    A state that this version does not know is read as running, or as stopped if the run has ended; the message names
    the unknown state.
    """
    if isinstance(raw, dict):
        raw = _known_state(raw, RunState, raw.get("ended") is not None)
        if isinstance(tasks := raw.get("tasks"), list):
            over = raw.get("ended") is not None
            raw = {**raw, "tasks": [_known_state(task, TaskState, over) for task in tasks]}
    return convert(raw, RunInfo)


def _known_state(raw: Any, states: type[RunState] | type[TaskState], has_ended: bool) -> Any:
    state = raw.get("state") if isinstance(raw, dict) else None
    if not isinstance(state, str) or state in [known.value for known in states]:
        return raw
    said = raw.get("message") or f"{state:.100}, a state that this version of jupyter_dtf does not know"
    return {**raw, "state": (states.STOPPED if has_ended else states.RUNNING).value, "message": said}


class RunRequest(RunOptions):
    """A request to run a program on every task of a cluster. The program itself is sent separately as a payload."""

    kind: str = "program"
    strategy: str = ""
    sys_path: list[str] = []
    cwd: str = ""
    may_be_spare: bool = False
    """Whether the program can run in a process whose TensorFlow runtime has already been initialized."""
    rejoins: bool = False
    """Whether a lost task, except the first and ``ps`` tasks, can be restarted alone while the others continue."""
    parameters: dict[str, Any] = {}
    origin: Origin = msgspec.field(default_factory=Origin)
    """As in ``RunDescriptor``."""
    code: list[Source] = []
    """The source code that was submitted, where available."""
    design: Source | None = None
    """The design that the run is started from, as in ``Submitted``."""
    goes_on: bool = False
    """As in ``RunDescriptor``."""
    resumed_from: str = ""
    """As in ``RunDescriptor``."""
    resume: str = ""
    """The path of a checkpoint, or of a directory of checkpoints, from which to continue. Takes precedence over the
    program's own."""
    trial: TrialInfo | None = None
    """As in ``RunDescriptor``."""
    places: int = 0
    """The number of the cluster's slots whose threads and GPUs each task reserves; the run waits for them. 0: the run
    starts immediately and shares the hosts with other runs."""
    place_shares: int = 1
    """With ``places=1``: the number of tasks that share a slot, at most ``MOST_SHARES``. Each gets its part of the
    threads and of the GPUs' memory."""
    worker_group: int = 1
    """With ``min_workers``: the number of workers that can only train together, such as the tasks of one copy of a
    pipeline. A run that shrinks keeps a multiple of this number."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_word(self.cwd, "cwd")
        least = self.restarts.min_workers
        workers = sum(self.jobs.get(job, 0) for job in FIRST_JOBS)
        if least is not None and self.jobs and least > workers:
            raise InvalidInput(
                f"`min_workers` must be at most the number of workers, {workers}, got {least}",
                field="restart.min_workers",
            )
        if least is not None and self.kind != "fit":
            raise InvalidInput(
                f"`min_workers` must be None except for cluster.fit, got {least} for a {self.kind}",
                field="restart.min_workers",
            )
        check_word(self.resume, "resume")
        if not 1 <= self.place_shares <= (MOST_SHARES if self.places == 1 else 1):
            raise InvalidInput(
                f"`place_shares` must be from 1 to {MOST_SHARES}, and 1 unless places=1, got "
                f"{self.place_shares} with places={self.places}",
                field="place_shares",
            )
        if self.worker_group < 1 or (self.jobs and workers % self.worker_group):
            raise InvalidInput(
                f"`worker_group` must divide the number of workers, {workers}, got {self.worker_group}",
                field="worker_group",
            )

    @property
    def restarts(self) -> Restart:
        """The restart policy. By default, a run that can continue automatically is restarted."""
        if self.restart is not None:
            return self.restart
        return Restart() if self.kind == "fit" else NEVER

    @property
    def stalled_after_s(self) -> float | None:
        """Seconds after which a run without any activity counts as stalled. None: never.

        Arbitrary programs may wait indefinitely.
        """
        restarts = self.restarts
        is_asked = self.kind == "fit" or restarts.max_restarts > 0 or restarts.stalled_after is not None
        return restarts.stalled_after_s if is_asked else None
