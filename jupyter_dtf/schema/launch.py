"""The specification with which a host starts a task, and the files that the host and the task leave for each other."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import msgspec

from . import private_files
from .base import PeerStruct
from .checkpoint import Checkpoint
from .printable import printable

_OUTCOME = "outcome.msgpack"
_NEXT = "next.json"
_PROFILE = "profile.json"
_WITHOUT = "without.json"
ENDED_BEFORE = "has ended while others were started again"
"""The message about a task that was ordered to continue in another attempt, but ended in the previous one."""
MOST_TOLD = 1_000_000
"""The largest number of characters of a traceback, a message or an error."""


class TaskSpec(PeerStruct):
    """The complete specification of one task of a run. The forked process of the task needs no other information."""

    run_id: str
    cluster: str
    job_name: str
    task_index: int
    cluster_spec: dict[str, dict[int, str]]
    """``{job: {task index: endpoint}}`` for the tasks of this attempt."""
    rank: int
    size: int
    local_rank: int
    local_size: int
    machines: list[str]
    """The machine of each rank. Tasks with the same machine name share memory."""
    threads: int
    run_dir: str
    stop_grace_s: float
    sys_path: list[str] = []
    cwd: str = ""
    environment: dict[str, str] = {}
    visible_gpus: list[str] = []
    """The values for CUDA_VISIBLE_DEVICES; empty: no GPUs."""
    gpu_memory_bytes: int = 0
    """TensorFlow's memory limit on each GPU; 0: no limit."""
    gpu_growth: bool = True
    """Without a memory limit: whether to allocate memory as needed instead of all at once."""
    gpu_shortage: str = ""
    """A sentence about GPUs that had too little free memory for the task just before it was started."""
    gang: list[str] = []
    """The names of all tasks with which the run was submitted, in rank order. ``cluster_spec`` has the tasks of this
    attempt."""
    may_go_over: bool = False
    """Whether the task's process may continue in another attempt of the run after other tasks are lost."""
    may_be_spare: bool = False
    """Whether the task may run in a spare process, whose TensorFlow runtime was started with the same number of
    threads."""
    says_when_done: bool = False
    """Whether the host reports the success of the task's program before its process ends. Older clusters do not set
    this: Dask would shut down a host for a report that they do not know."""
    trace_steps: list[int] = []
    """The steps to trace, as ``[first, last]``; empty: none."""
    checkpoint: Checkpoint | bool | None = None
    """As in ``RunOptions``."""
    resume: str = ""
    """As in ``RunRequest``."""
    attempt: int = 0
    """The number of earlier starts of the task. All events of its process include this number."""
    rejoins: bool = False
    """Whether the task replaces a lost one while all others continue."""
    joins: bool = False
    """Whether tasks of the previous attempt continue in this attempt."""
    lines: dict[str, int] = {}
    """The number of lines printed by earlier attempts, keyed by stream, as far as known."""
    secret: str = ""
    """A secret that the run's tasks share: 32 random bytes as hexadecimal digits."""
    links: list[str] = []
    """The address at which each rank accepts connections from the other tasks, as ``host:port``."""
    between_machines: str = "tcp"
    """The default transport for exchanges between machines: ``tcp`` or ``ring``."""
    # The following fields are filled in by the host.
    shared_dir: str = ""
    task_dir: str = ""
    feed: str = ""
    """The path of the socket on which the host serves the rows of partitions that Dask holds."""
    payload: str = ""
    """The path of the program's payload."""

    @property
    def task(self) -> str:
        """The short name of the task, such as ``worker:1``."""
        return f"{self.job_name}:{self.task_index}"

    @property
    def id(self) -> str:
        """An id that is unique among the processes of the cluster."""
        return task_id(self.run_id, self.task, self.attempt)


def task_id(run_id: str, task: str, attempt: int) -> str:
    """Return the id by which hosts identify the process of a task."""
    return f"{run_id}/{task}" + f"/{attempt}" * (attempt > 0)


def of_task_id(id_: str) -> tuple[str, str]:
    """Split a ``task_id`` into the run and the task."""
    run_id, task, *_ = id_.split("/")
    return run_id, task


class Outcome(PeerStruct):
    """How the program of a task ended. There is no outcome if the process died."""

    ok: bool
    message: str = ""
    """The last line of the traceback."""
    traceback: str = ""
    error: str = ""
    """The class of the exception, with its module."""
    result: bytes = b""
    """The pickled return value."""
    peer_lost: bool = False
    """Whether the failure was caused by the end of another task rather than by this program."""


class TaskResult(PeerStruct):
    """The end of a task, as reported by its host. ``exit_code`` or ``signal`` states how the process ended."""

    task: str
    attempt: int | None = None
    """The attempt that ended; None: the current one."""
    exit_code: int | None = None
    signal: str = ""
    outcome: Outcome | None = None
    message: str = ""
    """The reason for the end if the task did not cause it, or why the reason could not be determined."""


class Quiet(PeerStruct):
    """A task that has completed no step, printed no output and used no CPU for ``seconds``, as reported by its host."""

    id: str
    """The ``task_id``."""
    seconds: float
    steps: int = 0
    """The number of steps that the task completed before it became inactive."""
    longest_s: float = 0.0
    """The longest time between two steps."""
    waits: bool = False
    """Whether the task is waiting for other tasks in a collective."""


def leave_next(spec: TaskSpec) -> None:
    """Write the specification of the next attempt into the directory of a running task. Raises OSError."""
    private_files.write_file(Path(spec.task_dir) / _NEXT, msgspec.json.encode(spec))


def read_next(task_dir: Path) -> TaskSpec:
    """Read the specification that ``leave_next`` last wrote. Raises OSError."""
    return msgspec.json.decode(private_files.read_file(task_dir / _NEXT), type=TaskSpec)


class ProfileOrder(PeerStruct):
    """An order to a task to trace some of its steps."""

    number: int
    """The number of the profile in the run, counted from 1."""
    steps: int
    first: int = 0
    """The first step to trace, chosen so that no task has reached it yet. If it is 0, or if a task has passed it in the
    meantime, that task begins as soon as it can."""


def leave_profile(task_dir: Path, order: ProfileOrder) -> None:
    """Write a profile order into the directory of a running task. Raises OSError."""
    private_files.write_file(task_dir / _PROFILE, msgspec.json.encode(order))


def read_profile(task_dir: Path) -> ProfileOrder:
    """Read the order that ``leave_profile`` last wrote. Raises OSError."""
    return msgspec.json.decode(private_files.read_file(task_dir / _PROFILE), type=ProfileOrder)


def leave_without(task_dir: Path, tasks: list[str]) -> None:
    """Write the names of lost tasks that fit on no host into the directory of a running task. Raises OSError."""
    private_files.write_file(task_dir / _WITHOUT, msgspec.json.encode(tasks))


def read_without(task_dir: Path) -> frozenset[str]:
    """Read the names that ``leave_without`` last wrote. Raises OSError."""
    return msgspec.json.decode(private_files.read_file(task_dir / _WITHOUT), type=frozenset[str])


class Pace(PeerStruct):
    """The progress of a task, as reported by its host. Only the difference between two such reports is meaningful."""

    id: str
    """The ``task_id``."""
    step: float
    """The last step that the task's program has reported."""
    at_s: float
    """The time at which ``step`` was reported, by the task's own clock."""
    waited_s: float
    """The total time for which the task had waited for other tasks until ``at_s``, in seconds."""


def leave_outcome(task_dir: Path, outcome: Outcome) -> None:
    """Write a task's outcome into its directory, atomically."""
    for field in ("message", "traceback", "error"):
        setattr(outcome, field, printable(getattr(outcome, field), MOST_TOLD))
    private_files.write_file(task_dir / _OUTCOME, msgspec.msgpack.encode(outcome))


def read_outcome(task_dir: Path) -> Outcome | None:
    """Read a task's outcome; None if the task died without one.

    Raises OSError or msgspec.MsgspecError if the outcome is invalid.

    The task's program can also write to the directory. Anything except a regular file is rejected, because opening or
    reading it might block.
    """
    try:
        fd = os.open(task_dir / _OUTCOME, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError("it must be a regular file")
        return msgspec.msgpack.decode(file.read(), type=Outcome)


def remove_runs_of(host: int, machine: Path, shared: Path) -> None:
    """Remove the directories of the runs of one host (``<run>-<host>``, where ``host`` is its pid).

    The shared memory of a run is removed with the last of these directories on the machine.
    """
    for directory in machine.glob(f"[0-9]*-{host}"):
        shutil.rmtree(directory, ignore_errors=True)
        run = directory.name.removesuffix(f"-{host}")
        if not any(machine.glob(f"{run}-*")):  # no other host on this machine has tasks of the run
            shutil.rmtree(shared / run, ignore_errors=True)
