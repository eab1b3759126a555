"""A run: one execution of a program on a cluster. Its life cycle, its tasks, what a viewer is told of it."""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from ..errors import IllegalTransition, InvalidInput
from .base import PeerStruct, convert
from .checkpoint import CheckpointInfo
from .notify import Alarm
from .origin import Origin, Source
from .printable import check_word
from .restart import NEVER, Restart
from .run_marks import RunMarks
from .run_options import RunOptions
from .search_trial import TrialInfo

MOST_SHARES = 64
"""So many tasks have a place together at most."""


class RunState(str, enum.Enum):
    """The life of a run. ``RunState.step`` knows which steps there are."""

    PENDING = "pending"  # accepted; waits for hosts
    LAUNCHING = "launching"  # ports reserved, tasks being forked
    RUNNING = "running"  # every task has started
    RESTARTING = "restarting"  # tasks were lost, and all are being started again where they had got to
    PAUSING = "pausing"  # told to pause; tasks are ending, with a checkpoint
    PAUSED = "paused"  # without tasks, until somebody continues it
    STOPPING = "stopping"  # told to stop; tasks are ending
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"  # the cluster went away while the run was under way

    @property
    def is_final(self) -> bool:
        return not _RUN_STEPS[self]

    def step(self, to: RunState) -> RunState:
        """The next state. Raises IllegalTransition if a run cannot go from this state to that one."""
        if to not in _RUN_STEPS[self]:
            legal = ", ".join(sorted(s.value for s in _RUN_STEPS[self])) or "nothing"
            raise IllegalTransition(f"A run that is {self.value} can become {legal}. Received: {to.value}")
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
"""The states that a run does not leave."""


class TaskState(str, enum.Enum):
    """The life of one task's process."""

    PENDING = "pending"
    STARTING = "starting"  # forked
    RUNNING = "running"  # the user's program has begun
    SERVING = "serving"  # the program waits in server.join() for the others to end
    FINISHED = "finished"  # the program has ended; its server stays up for those that have not
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # an exception, a non-zero exit status, or a signal nobody here sent
    STOPPED = "stopped"  # ended because the run was stopped or another task failed
    LOST = "lost"  # its cluster went away while it was under way

    @property
    def is_final(self) -> bool:
        return self in (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED, TaskState.LOST)

    def step(self, to: TaskState, *, again: bool = False) -> TaskState:
        """The next state; ``again``: of a new attempt, which begins from any state. Raises IllegalTransition."""
        legal = _BEGINS if again else frozenset() if self.is_final else _TASK_STEPS
        if to not in legal:
            names = ", ".join(sorted(state.value for state in legal)) or "nothing, unless it is started again"
            raise IllegalTransition(f"A task that is {self.value} can become {names}. Received: {to.value}")
        return to


_TASK_STEPS = frozenset(TaskState) - {TaskState.PENDING}
"""While its process lives: what a task says and what its host says of it come on different ways."""
_BEGINS = frozenset({TaskState.PENDING, TaskState.STARTING, TaskState.RUNNING, TaskState.FAILED})
"""How a new attempt may be heard of first. It has failed where it could not be started."""


class TaskInfo(PeerStruct):
    """One task of a run. ``task`` is its short name, ``worker:1``."""

    task: str
    state: TaskState = TaskState.PENDING
    attempt: int = 0
    """How often it was started again."""
    host: str = ""
    """The name of the Dask worker it runs on."""
    pid: int = 0
    endpoint: str = ""
    """``host:port``, reserved for its TensorFlow server while the run lasts."""
    gpus: list[str] = []
    """The GPUs that it has, as CUDA_VISIBLE_DEVICES names them: numbers on its machine, or UUIDs."""
    exit_code: int | None = None
    signal: str = ""
    """The name of the signal that ended it (``SIGKILL``), if one did."""
    message: str = ""
    """The last line of the traceback, or why it was ended."""
    traceback: str = ""


class Progress(PeerStruct):
    """How far a run is. ``done`` of ``total`` (0 when unknown) units."""

    done: int = 0
    total: int = 0
    unit: str = "step"
    epoch: int = 0
    """The current epoch, counted from 1; 0 when the program has no epochs."""
    epochs: int = 0


class Best(PeerStruct):
    """The best value of a metric, and where it was."""

    value: float
    step: float = 0.0
    epoch: int = 0
    """Counted from 1; 0 where there are no epochs."""


class RunDescriptor(PeerStruct):
    """What is known of a run when it is submitted, and does not change. All else is told by its events."""

    id: str
    name: str
    cluster: str
    kind: str = "program"
    """``fit``, ``predict``, ``evaluate``, ``program``, ``script``, ``servers``, ``profile`` or ``trial``."""
    strategy: str = ""
    jobs: dict[str, int] = {}
    created: float = 0.0
    """Seconds since the epoch, as are all times."""
    parameters: dict[str, Any] = {}
    """What the person chose: batch size, epochs, optimizer; shown in the dashboard."""
    run_dir: str = ""
    goes_on: bool = False
    """Whether it writes checkpoints from which it, or another run, can go on."""
    resumed_from: str = ""
    """The id of the run from whose checkpoint it goes on; empty where that is none, or is not known."""
    origin: Origin = msgspec.field(default_factory=Origin)
    """What it was made of; empty of runs of before there was such a record."""
    trial: TrialInfo | None = None
    """Which trial of which search it is; None for a run that is none."""


class RunInfo(RunDescriptor):
    """A run's summary: its descriptor with its events applied, up to ``next_seq``. It has no output and no points.

    It is made by ``backend/records/apply_event.py`` and ``run_record.py`` alone. What is kept or sent of it is a cache
    of that: of two summaries, the one with the higher ``next_seq`` knows more.
    """

    state: RunState = RunState.PENDING
    message: str = ""
    """One line: why it waits, why it failed."""
    started: float | None = None
    ended: float | None = None
    tasks: list[TaskInfo] = []
    """Those that events have told of: empty until it is planned where they run."""
    progress: Progress = msgspec.field(default_factory=Progress)
    latest: dict[str, float] = {}
    """The newest value of each metric, averaged over the tasks that report it."""
    headline: dict[str, float] = {}
    """What lists show of ``latest``: the first stands for the run. A trial's objective, otherwise its loss, or the
    first metric that its program reports; never one of the machine's. Of a run that has ended, the last epoch's."""
    not_finite: dict[str, str] = {}
    """Metrics with a value that is not finite: a sentence on the first, ``loss became NaN at step 8 on worker:1``."""
    best: dict[str, Best] = {}
    """The best value so far of each metric of ``headline`` of which it is known whether more or less is better: of an
    epoch, or, of a program that has none, of a point. Only points tell it all, and a run's record."""
    slow: dict[str, str] = {}
    """The tasks for which the others wait in every step now, and a sentence on each."""
    alarms: list[Alarm] = []
    """What somebody wanted to be told of, the newest ``MOST_KEPT``, oldest first."""
    checkpoint: CheckpointInfo | None = None
    """The last that was written; None while there is none."""
    sparkline: list[float] = []
    """At most 60 values of a trial's objective, or of the loss (or of the first metric of ``headline``): the oldest
    first."""
    sparkline_steps: list[float] = []
    """The steps of the first and the last of them; empty where there is none."""
    values: dict[str, float] = {}
    """What a trial's program has returned for its objectives. Where it has returned none, ``latest`` counts."""
    pruned: bool = False
    """Whether a trial is ended because it did not promise enough."""
    marks: RunMarks = msgspec.field(default_factory=RunMarks)
    """What a person has said of it, which no event tells: the hub of each viewer adds it, and the name it has now."""
    next_seq: int = 0
    """The sequence number of the first event that is not in here: that of the run's next one, where all are."""
    points_seq: int = 0
    """The same for what only points tell: ``latest``, ``headline`` and the sparkline. 0 where nobody has looked into
    points, which the controller passes on as bytes."""

    @classmethod
    def of(cls, run: RunDescriptor) -> RunInfo:
        """A run before its first event."""
        return cls(**{name: getattr(run, name) for name in RunDescriptor.__struct_fields__})

    @property
    def descriptor(self) -> RunDescriptor:
        """What did not come from events."""
        return RunDescriptor(**{name: getattr(self, name) for name in RunDescriptor.__struct_fields__})


def read_run(raw: Any) -> RunInfo:
    """The description of a run as a peer has told it, or the store has it. Raises InvalidInput.

    A state that this version does not know is one on the way, or, of a run that has ended, one of an end; the message
    says which it is.
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
    """A program to run on every task of a cluster; the program itself travels beside it as a payload."""

    kind: str = "program"
    strategy: str = ""
    sys_path: list[str] = []
    cwd: str = ""
    may_be_spare: bool = False
    """Whether the program does without the settings of TensorFlow that cannot be changed once its runtime runs."""
    rejoins: bool = False
    """Whether a task that dies, neither the first nor a ``ps``, can be started again alone, while the others go on."""
    parameters: dict[str, Any] = {}
    origin: Origin = msgspec.field(default_factory=Origin)
    """As in ``RunDescriptor``."""
    code: list[Source] = []
    """What was submitted, as far as its source is to be had."""
    design: Source | None = None
    """The design that it comes from, as in ``Submitted``."""
    goes_on: bool = False
    """As in ``RunDescriptor``."""
    resumed_from: str = ""
    """As in ``RunDescriptor``."""
    resume: str = ""
    """The path of the checkpoint to go on from, or of a directory of some; it goes before what the program says."""
    trial: TrialInfo | None = None
    """As in ``RunDescriptor``."""
    places: int = 0
    """Of so many of the cluster's places, which no other such run has, each task takes threads and GPUs; the run waits
    for them. 0: it has the hosts together with whoever else is there, at once."""
    place_shares: int = 1
    """With ``places`` 1: a place is shared by so many such tasks, MOST_SHARES at most, each with its part of the
    threads and of the GPUs' memory."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_word(self.cwd, "cwd")
        least, workers = self.restarts.min_workers, sum(self.jobs.values()) if self.jobs else None
        if least is not None and workers is not None and least > workers:
            raise InvalidInput(
                f"min_workers is at most the number of workers. Received: min_workers={least} for {workers}",
                field="restart.min_workers",
            )
        if least is not None and (self.kind, self.strategy) != ("fit", "allreduce"):
            what = f"a {self.kind}" + (f' with strategy="{self.strategy}"' if self.strategy else "")
            raise InvalidInput(
                'min_workers is for trainings by all-reduce: cluster.fit with strategy="allreduce". '
                f"Received: min_workers={least} for {what}",
                field="restart.min_workers",
            )
        check_word(self.resume, "resume")
        if not 1 <= self.place_shares <= (MOST_SHARES if self.places == 1 else 1):
            raise InvalidInput(
                f"place_shares must be from 1 to {MOST_SHARES}, and 1 unless places=1. "
                f"Received: place_shares={self.place_shares} with places={self.places}",
                field="place_shares",
            )

    @property
    def restarts(self) -> Restart:
        """What is done when a task dies or freezes. Nobody has to ask for it where the run can go on by itself."""
        if self.restart is not None:
            return self.restart
        return Restart() if self.kind == "fit" else NEVER

    @property
    def stalled_after_s(self) -> float | None:
        """After so many seconds a run that does nothing at all is held to be stalled. None: never.

        A program of which nothing is known may wait for as long as it likes.
        """
        restarts = self.restarts
        is_asked = self.kind == "fit" or restarts.max_restarts > 0 or restarts.stalled_after is not None
        return restarts.stalled_after_s if is_asked else None
