"""The specification of a task that a host starts, and the outcome that a task leaves behind."""

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
"""The message about a task that was told to continue in another attempt, but ended in the previous one."""
MOST_TOLD = 1_000_000
"""The most characters of a traceback."""


class TaskSpec(PeerStruct):
    """The complete specification of one task of a run: nothing else is needed after the fork."""

    run_id: str
    cluster: str
    job_name: str
    task_index: int
    cluster_spec: dict[str, dict[int, str]]
    """``{job: {task index: endpoint}}`` of the run's gang."""
    rank: int
    size: int
    local_rank: int
    local_size: int
    machines: list[str]
    """The machine of every rank; equal names share memory."""
    threads: int
    run_dir: str
    stop_grace_s: float
    sys_path: list[str] = []
    cwd: str = ""
    environment: dict[str, str] = {}
    visible_gpus: list[str] = []
    """For CUDA_VISIBLE_DEVICES; empty: none."""
    gpu_memory_bytes: int = 0
    """TensorFlow's memory limit on each; 0: none."""
    gpu_growth: bool = True
    """Without such a limit: allocate memory as needed instead of all at once."""
    gpu_shortage: str = ""
    """A sentence about those that had too little free memory for the task just before it was started."""
    gang: list[str] = []
    """The names of all tasks that the run was submitted with, by rank; ``cluster_spec`` has those of this attempt."""
    may_go_over: bool = False
    """Whether the task's process may continue in another attempt of the run when other tasks are lost."""
    may_be_spare: bool = False
    """Whether it may run in a process in which TensorFlow's runtime was started with this many threads."""
    trace_steps: list[int] = []
    """``[first, last]``: the steps to trace; empty: none."""
    checkpoint: Checkpoint | bool | None = None
    """As in ``RunOptions``."""
    resume: str = ""
    """As in ``RunRequest``."""
    attempt: int = 0
    """The number of earlier starts of the task; all events of its process carry it."""
    rejoins: bool = False
    """Whether it replaces a lost task on its own, while the others continue."""
    joins: bool = False
    """Whether tasks of the previous attempt continue in this one."""
    lines: dict[str, int] = {}
    """``{stream: lines}`` printed by earlier attempts, as far as known."""
    secret: str = ""
    """32 random bytes as hex digits, known only to the tasks of the run."""
    links: list[str] = []
    """The address at which each rank accepts connections of the other tasks, ``host:port``."""
    between_machines: str = "tcp"
    """The default transport of exchanges between machines: ``tcp``, or ``ring``."""
    # Filled in by the host:
    shared_dir: str = ""
    task_dir: str = ""
    feed: str = ""
    """The socket on which the host serves the rows of partitions that Dask holds."""
    payload: str = ""
    """The path of the program's payload."""

    @property
    def task(self) -> str:
        """The short name, ``worker:1``."""
        return f"{self.job_name}:{self.task_index}"

    @property
    def id(self) -> str:
        """An id that is unique among the processes of the cluster."""
        return task_id(self.run_id, self.task, self.attempt)


def task_id(run_id: str, task: str, attempt: int) -> str:
    """The id by which hosts identify the process of a task."""
    return f"{run_id}/{task}" + f"/{attempt}" * (attempt > 0)


def of_task_id(id_: str) -> tuple[str, str]:
    """The run and the task of a ``task_id``."""
    run_id, task, *_ = id_.split("/")
    return run_id, task


class Outcome(PeerStruct):
    """How a task's program ended. Absent if the process died."""

    ok: bool
    message: str = ""
    """The last line of the traceback."""
    traceback: str = ""
    error: str = ""
    """The class of the exception, with its module."""
    result: bytes = b""
    """The pickled return value."""
    peer_lost: bool = False
    """Whether the failure follows from the end of another task and is not the program's own."""


class TaskResult(PeerStruct):
    """The end of a task, as its host reports it: ``exit_code`` or ``signal`` says how the process ended."""

    task: str
    attempt: int | None = None
    """The attempt that ended; None: the current one."""
    exit_code: int | None = None
    signal: str = ""
    outcome: Outcome | None = None
    message: str = ""
    """The reason if the task did not cause it, or what failed in finding out."""


class Quiet(PeerStruct):
    """A task that has made no step, produced no output and used no CPU for ``seconds``, as reported by its host."""

    id: str
    """Its ``task_id``."""
    seconds: float
    steps: int = 0
    """The number of steps before that."""
    longest_s: float = 0.0
    """The longest time between two steps."""
    waits: bool = False
    """Whether it waits for other tasks in a collective."""


def leave_next(spec: TaskSpec) -> None:
    """Write the specification of the next attempt into the directory of a running task. Raises OSError."""
    private_files.write_file(Path(spec.task_dir) / _NEXT, msgspec.json.encode(spec))


def read_next(task_dir: Path) -> TaskSpec:
    """Read what ``leave_next`` wrote last. Raises OSError."""
    return msgspec.json.decode(private_files.read_file(task_dir / _NEXT), type=TaskSpec)


class ProfileOrder(PeerStruct):
    """The order to a task to trace some of its steps."""

    number: int
    """The number of the profile in the run, counted from 1."""
    steps: int
    first: int = 0
    """The first step, which no task has reached yet. If it is 0 or in the past, each task begins as soon as it can."""


def leave_profile(task_dir: Path, order: ProfileOrder) -> None:
    """Write a profile order into the directory of a running task. Raises OSError."""
    private_files.write_file(task_dir / _PROFILE, msgspec.json.encode(order))


def read_profile(task_dir: Path) -> ProfileOrder:
    """Read what ``leave_profile`` wrote last. Raises OSError."""
    return msgspec.json.decode(private_files.read_file(task_dir / _PROFILE), type=ProfileOrder)


def leave_without(task_dir: Path, tasks: list[str]) -> None:
    """Write the lost tasks for which there is no room into the directory of a running task. Raises OSError."""
    private_files.write_file(task_dir / _WITHOUT, msgspec.json.encode(tasks))


def read_without(task_dir: Path) -> frozenset[str]:
    """Read what ``leave_without`` wrote last. Raises OSError."""
    return msgspec.json.decode(private_files.read_file(task_dir / _WITHOUT), type=frozenset[str])


class Pace(PeerStruct):
    """The progress of a task, as reported by its host. Only the difference between two of them is meaningful."""

    id: str
    """Its ``task_id``."""
    step: float
    """The last step that its program has reported."""
    at_s: float
    """When it reported that, by the task's own clock."""
    waited_s: float
    """Seconds for which it had waited for other tasks until then."""


def leave_outcome(task_dir: Path, outcome: Outcome) -> None:
    """Write a task's outcome into its directory, atomically."""
    for field in ("message", "traceback", "error"):
        setattr(outcome, field, printable(getattr(outcome, field), MOST_TOLD))
    private_files.write_file(task_dir / _OUTCOME, msgspec.msgpack.encode(outcome))


def read_outcome(task_dir: Path) -> Outcome | None:
    """Read a task's outcome; None if it died before that. Raises OSError or msgspec.MsgspecError if it is invalid.

    The program can write to the directory as well, so anything but a regular file is rejected, as it might block.
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
    """Remove the directories of the runs of one host, ``<run>-<pid of the host>``, and its shared memory."""
    for directory in machine.glob(f"[0-9]*-{host}"):
        shutil.rmtree(directory, ignore_errors=True)
        run = directory.name.removesuffix(f"-{host}")
        if not any(machine.glob(f"{run}-*")):  # no other host of this machine has tasks of it
            shutil.rmtree(shared / run, ignore_errors=True)
