"""A run, which is one execution of a program on a cluster: its life cycle, its tasks, and its public summary."""

from __future__ import annotations

import enum
import hashlib
from typing import Any

import msgspec

from ..errors import IllegalTransition, InvalidInput
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
    RESTARTING = "restarting"  # tasks were lost; all are being restarted from where they were
    PAUSING = "pausing"  # asked to pause; tasks are writing a checkpoint and ending
    PAUSED = "paused"  # without tasks until it is continued
    STOPPING = "stopping"  # asked to stop; tasks are ending
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"  # the cluster went away during the run

    @property
    def is_final(self) -> bool:
        return not _RUN_STEPS[self]

    def step(self, to: RunState) -> RunState:
        """The next state. Raises IllegalTransition if there is no transition from this state to that one."""
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
    SERVING = "serving"  # the program waits in server.join() for the others to end
    FINISHED = "finished"  # the program has ended; its server stays up for those that have not
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # an exception, a non-zero exit status, or a signal from elsewhere
    STOPPED = "stopped"  # ended because the run was stopped or another task failed
    LOST = "lost"  # its cluster went away while it was running

    @property
    def is_final(self) -> bool:
        return self in (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED, TaskState.LOST)

    def step(self, to: TaskState, *, again: bool = False) -> TaskState:
        """The next state. ``again``: in a new attempt, which starts from any state. Raises IllegalTransition."""
        legal = _BEGINS if again else frozenset() if self.is_final else _TASK_STEPS
        if to not in legal:
            names = ", ".join(sorted(state.value for state in legal)) or "nothing, unless it is restarted"
            raise IllegalTransition(f"A task that is {self.value} can only become {names}, got {to.value}")
        return to


_TASK_STEPS = frozenset(TaskState) - {TaskState.PENDING}
"""States of a live process: what a task reports and what its host reports about it arrive on different paths."""
_BEGINS = frozenset({TaskState.PENDING, TaskState.STARTING, TaskState.RUNNING, TaskState.FAILED})
"""The states in which a new attempt may first be seen. It is failed if it could not be started."""


class TaskInfo(PeerStruct):
    """One task of a run. ``task`` is its short name, ``worker:1``."""

    task: str
    state: TaskState = TaskState.PENDING
    attempt: int = 0
    """How often it was restarted."""
    host: str = ""
    """The name of the Dask worker it runs on."""
    pid: int = 0
    endpoint: str = ""
    """``host:port``, reserved for its TensorFlow server while the run lasts."""
    gpus: list[str] = []
    """Its GPUs, as CUDA_VISIBLE_DEVICES names them: numbers on its machine, or UUIDs."""
    exit_code: int | None = None
    signal: str = ""
    """The name of the signal that ended it (``SIGKILL``), if one did."""
    message: str = ""
    """The last line of the traceback, or why the task was ended."""
    traceback: str = ""


class Progress(PeerStruct):
    """The progress of a run: ``done`` of ``total`` (0 if unknown) units."""

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
    """Counted from 1; 0 if there are no epochs."""


class RunProfile(PeerStruct):
    """The newest profile of a run that was requested while it was running."""

    number: int
    """The number of the profile in the run, counted from 1."""
    steps: int
    done: bool = False
    message: str = ""
    """Why there is no trace, if it has ended without one."""


class RunDescriptor(PeerStruct):
    """What is known about a run when it is submitted and does not change. Everything else comes from its events."""

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
    """The user's settings, shown in the dashboard: batch size, epochs, optimizer."""
    run_dir: str = ""
    goes_on: bool = False
    """Whether it writes checkpoints from which it, or another run, can continue."""
    resumed_from: str = ""
    """The id of the run from whose checkpoint it continues; empty if there is none, or it is unknown."""
    origin: Origin = msgspec.field(default_factory=Origin)
    """Its provenance; empty for runs from before this was recorded."""
    trial: TrialInfo | None = None
    """Which trial of which search it is; None if it is not a trial."""
    cluster_id: str = ""
    """The identity of its cluster, since another one may have the same name later. Empty in runs from before this was
    recorded."""


def cluster_id(token: str) -> str:
    """The identity of a cluster in its runs: a digest of the token that names its directories."""
    return hashlib.sha256(token.encode()).hexdigest()[:16]


class RunInfo(RunDescriptor):
    """A run's summary: its descriptor with its events applied, up to ``next_seq``, without output and points.

    Only ``backend/records/apply_event.py`` and ``run_record.py`` create it. Copies that are stored or sent are caches:
    of two summaries, the one with the higher ``next_seq`` is more recent.
    """

    state: RunState = RunState.PENDING
    message: str = ""
    """One line: why it is waiting, or why it failed."""
    started: float | None = None
    ended: float | None = None
    tasks: list[TaskInfo] = []
    """The tasks; empty until they have been placed on hosts."""
    progress: Progress = msgspec.field(default_factory=Progress)
    latest: dict[str, float] = {}
    """The latest value of each metric, averaged over the tasks that report it."""
    headline: dict[str, float] = {}
    """The part of ``latest`` that lists show, most important first: a trial's objective, otherwise its loss, or the
    first metric that its program reports; never a machine metric. For a run that has ended, the last epoch's values."""
    not_finite: dict[str, str] = {}
    """Metrics that became non-finite, with a sentence for each: ``loss became NaN at step 8 on worker:1``."""
    best: dict[str, Best] = {}
    """The best value so far of each metric in ``headline`` whose direction is known: over epochs, or over points if the
    program has no epochs. It is complete only if points were applied, and in a run's record."""
    slow: dict[str, str] = {}
    """The tasks that the others currently wait for in every step, with a sentence on each."""
    alarms: list[Alarm] = []
    """The newest ``MOST_KEPT`` notifications, oldest first."""
    checkpoint: CheckpointInfo | None = None
    """The latest checkpoint; None if there is none yet."""
    profile: RunProfile | None = None
    """The newest profile that was requested; None if none was."""
    sparkline: list[float] = []
    """At most 60 values of a trial's objective, or of the loss (or the first metric in ``headline``), oldest first."""
    sparkline_steps: list[float] = []
    """The steps of the first and the last of them; empty if there are none."""
    values: dict[str, float] = {}
    """The values that a trial's program returned for its objectives. If it returned none, ``latest`` is used."""
    pruned: bool = False
    """Whether a trial was ended because it was not promising."""
    marks: RunMarks = msgspec.field(default_factory=RunMarks)
    """The user's name, tags and note, which are not events: the hub of each viewer adds them."""
    next_seq: int = 0
    """The sequence number of the first event that has not been applied."""
    points_seq: int = 0
    """The same for what is derived from points: ``latest``, ``headline`` and the sparkline. 0 if points were not
    decoded; the controller passes them on as bytes."""

    @classmethod
    def of(cls, run: RunDescriptor) -> RunInfo:
        """The summary of a run before its first event."""
        return cls(**{name: getattr(run, name) for name in RunDescriptor.__struct_fields__})

    @property
    def descriptor(self) -> RunDescriptor:
        """The part that does not come from events."""
        return RunDescriptor(**{name: getattr(self, name) for name in RunDescriptor.__struct_fields__})


def read_run(raw: Any) -> RunInfo:
    """Decode the summary of a run from a peer or from the store. Raises InvalidInput.

    A state that this version does not know is read as running, or as stopped if the run has ended;
    the message names it.
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
    """A request to run a program on every task of a cluster. The program itself is sent along as a payload."""

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
    """The design that it comes from, as in ``Submitted``."""
    goes_on: bool = False
    """As in ``RunDescriptor``."""
    resumed_from: str = ""
    """As in ``RunDescriptor``."""
    resume: str = ""
    """The path of the checkpoint, or of a directory of checkpoints, to continue from. Overrides the program's."""
    trial: TrialInfo | None = None
    """As in ``RunDescriptor``."""
    places: int = 0
    """The number of the cluster's slots whose threads and GPUs each task takes for itself; the run waits for them.
    0: it starts immediately and shares the hosts with other runs."""
    place_shares: int = 1
    """With ``places`` 1: how many such tasks share a slot, at most MOST_SHARES, each with its part of the threads and
    of the GPUs' memory."""
    worker_group: int = 1
    """With ``min_workers``: the number of workers that only train together, as the tasks of one copy of a pipeline do.
    A run that shrinks keeps a multiple of it."""

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
        """The restart policy. By default a run that can continue by itself is restarted."""
        if self.restart is not None:
            return self.restart
        return Restart() if self.kind == "fit" else NEVER

    @property
    def stalled_after_s(self) -> float | None:
        """Seconds after which a run without any activity counts as stalled. None: never.

        An arbitrary program may wait for as long as it likes.
        """
        restarts = self.restarts
        is_asked = self.kind == "fit" or restarts.max_restarts > 0 or restarts.stalled_after is not None
        return restarts.stalled_after_s if is_asked else None
