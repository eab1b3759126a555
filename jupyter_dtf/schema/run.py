"""A run: one execution of a program on a cluster. Its life cycle, its tasks, what a viewer is told of it."""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from ..errors import IllegalTransition, InvalidInput
from .base import Struct
from .trace import check_steps

MIN_GPU_MEMORY_BYTES = 1 << 20


class RunState(str, enum.Enum):
    """The life of a run. ``RunState.step`` knows which steps there are."""

    PENDING = "pending"  # accepted; waits for hosts
    LAUNCHING = "launching"  # ports reserved, tasks being forked
    RUNNING = "running"  # every task has started
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
    RunState.LAUNCHING: frozenset({RunState.RUNNING, RunState.STOPPING}) | _ENDS,
    RunState.RUNNING: frozenset({RunState.SUCCEEDED, RunState.STOPPING}) | _ENDS,
    RunState.STOPPING: frozenset({RunState.STOPPED, RunState.SUCCEEDED}) | _ENDS,
    RunState.SUCCEEDED: frozenset(),
    RunState.FAILED: frozenset(),
    RunState.STOPPED: frozenset(),
    RunState.LOST: frozenset(),
}


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

    @property
    def is_final(self) -> bool:
        return self in (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED)


class TaskInfo(Struct):
    """One task of a run. ``task`` is its short name, ``worker:1``."""

    task: str
    state: TaskState = TaskState.PENDING
    host: str = ""
    """The name of the Dask worker it runs on."""
    pid: int = 0
    endpoint: str = ""
    """``host:port``, reserved for its TensorFlow server while the run lasts."""
    exit_code: int | None = None
    signal: str = ""
    """The name of the signal that ended it (``SIGKILL``), if one did."""
    message: str = ""
    """The last line of the traceback, or why it was ended."""
    traceback: str = ""


class Progress(Struct):
    """How far a run is. ``done`` of ``total`` (0 when unknown) units."""

    done: int = 0
    total: int = 0
    unit: str = "step"
    epoch: int = 0
    """The current epoch, counted from 1; 0 when the program has no epochs."""
    epochs: int = 0


class RunInfo(Struct):
    """What a viewer is told of a run: all but its events, output and points."""

    id: str
    name: str
    cluster: str
    state: RunState = RunState.PENDING
    message: str = ""
    """One line: why it waits, why it failed."""
    kind: str = "program"
    """``fit``, ``program``, ``script`` or ``servers``; later ``trial``."""
    strategy: str = ""
    jobs: dict[str, int] = {}
    created: float = 0.0
    """Seconds since the epoch, as are the next two."""
    started: float | None = None
    ended: float | None = None
    tasks: list[TaskInfo] = []
    progress: Progress = msgspec.field(default_factory=Progress)
    latest: dict[str, float] = {}
    """The newest value of each metric, averaged over the tasks that report it."""
    sparkline: list[float] = []
    """At most 60 values of the loss (or of the first metric), oldest first."""
    parameters: dict[str, Any] = {}
    """What the person chose: batch size, epochs, optimizer; shown in the dashboard."""
    run_dir: str = ""
    next_seq: int = 0
    """The sequence number that the run's next event will get."""


class RunRequest(Struct):
    """A program to run on every task of a cluster; the program itself travels beside it as a payload."""

    name: str = ""
    kind: str = "program"
    strategy: str = ""
    jobs: dict[str, int] = {}
    """Which jobs take part, and with how many tasks; empty: all of the cluster's."""
    threads_per_task: int = 0
    """0: the host's threads divided among its tasks of this run."""
    gpus_per_task: int | None = None
    """None: the machine's GPUs divided among its tasks of this run, but ``ps`` and ``evaluator``. 0: none."""
    gpu_memory: int | float | None = None
    """The most that a task takes of each of its GPUs: bytes (int), or a fraction (float). None: one task, all of it."""
    stop_grace_s: float = 10.0
    """After a stop, how long the program may take to end by itself."""
    sys_path: list[str] = []
    cwd: str = ""
    environment: dict[str, str] = {}
    may_be_spare: bool = False
    """Whether the program does without the settings of TensorFlow that cannot be changed once its runtime runs."""
    trace_steps: list[int] = []
    """``[first, last]``: record what ran where in these steps, counted from 1. Empty: in none."""
    parameters: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.trace_steps:
            check_steps(self.trace_steps)
        if self.threads_per_task < 0:
            raise InvalidInput(
                f"threads_per_task is 0 (divide) or more. Received: {self.threads_per_task}", field="threads_per_task"
            )
        self._check_gpus()
        if self.stop_grace_s < 0:
            raise InvalidInput(
                f"stop_grace_s is 0 or more seconds. Received: {self.stop_grace_s}", field="stop_grace_s"
            )

    def _check_gpus(self) -> None:
        count, memory = self.gpus_per_task, self.gpu_memory
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
            raise InvalidInput(
                f"gpus_per_task is a whole number, 0 or more, or None (divide). Received: {count!r}",
                field="gpus_per_task",
            )
        if memory is None:
            return
        fraction = isinstance(memory, float) and 0 < memory <= 1
        if not fraction and (not isinstance(memory, int) or memory < MIN_GPU_MEMORY_BYTES):
            raise InvalidInput(
                f"gpu_memory is a whole number of bytes, {MIN_GPU_MEMORY_BYTES} or more, or a fraction of a GPU, above "
                f"0 and up to 1.0. Received: {memory!r}",
                field="gpu_memory",
            )
        if count == 0:
            raise InvalidInput(f"gpu_memory is of a GPU. Received: {memory!r} with gpus_per_task=0", field="gpu_memory")
