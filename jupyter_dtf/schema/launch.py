"""What a host is told of a task it shall start, and what a task leaves behind when it ends."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import msgspec

from . import private
from .base import PeerStruct
from .checkpoint import Checkpoint
from .printable import printable

_OUTCOME = "outcome.msgpack"
_NEXT = "next.json"
_PROFILE = "profile.json"
_WITHOUT = "without.json"
ENDED_BEFORE = "has ended while others were started again"
"""What is said of a task that was told to go over to another attempt, and has ended in the one before."""
MOST_TOLD = 1_000_000
"""Characters of a traceback."""


class TaskSpec(PeerStruct):
    """One task of one run, complete: nothing else is asked for after the fork."""

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
    """The most that TensorFlow takes of each; 0: what it needs."""
    gpu_growth: bool = True
    """Without such a limit: as it needs it, not all of it at once."""
    may_go_over: bool = False
    """Whether the run may have another attempt, and the task's process go over to it when other tasks are lost."""
    may_be_spare: bool = False
    """Whether a process may run it in which TensorFlow's runtime has been started, with so many threads."""
    trace_steps: list[int] = []
    """``[first, last]``: the steps to trace; empty: none."""
    checkpoint: Checkpoint | bool | None = None
    """As in ``RunOptions``."""
    resume: str = ""
    """As in ``RunRequest``."""
    attempt: int = 0
    """How often the task was started before; all that its process says carries it."""
    rejoins: bool = False
    """Whether it takes the place of a lost task alone, while the others continue."""
    joins: bool = False
    """Whether tasks of the attempt before have gone over to this one."""
    lines: dict[str, int] = {}
    """``{stream: lines}`` that earlier attempts have printed, as far as is known."""
    secret: str = ""
    """32 random bytes as hex digits, which the tasks of the run know and nobody else."""
    links: list[str] = []
    """Where each rank takes connections of the other tasks, ``host:port``."""
    between_machines: str = "tcp"
    """What carries exchanges between machines unless a program says otherwise: ``tcp``, or ``ring``."""
    # Filled in by the host:
    shared_dir: str = ""
    task_dir: str = ""
    feed: str = ""
    """The socket by which the host gives the rows of partitions that Dask holds."""
    payload: str = ""
    """The path of the program's payload."""

    @property
    def task(self) -> str:
        """The short name, ``worker:1``."""
        return f"{self.job_name}:{self.task_index}"

    @property
    def id(self) -> str:
        """What no other process of the cluster is called."""
        return task_id(self.run_id, self.task, self.attempt)


def task_id(run_id: str, task: str, attempt: int) -> str:
    """What hosts call the process of a task."""
    return f"{run_id}/{task}" + f"/{attempt}" * (attempt > 0)


def of_task_id(id_: str) -> tuple[str, str]:
    """The run and the task of a ``task_id``."""
    run_id, task, *_ = id_.split("/")
    return run_id, task


class Outcome(PeerStruct):
    """How a task's program ended. Absent when the process died without a word."""

    ok: bool
    message: str = ""
    """The last line of the traceback."""
    traceback: str = ""
    error: str = ""
    """The class of the exception, with its module."""
    result: bytes = b""
    """The pickled return value."""
    peer_lost: bool = False
    """The failure follows from the end of another task, and is not the program's own."""


class TaskResult(PeerStruct):
    """The end of a task, as its host reports it: ``exit_code`` or ``signal`` says how the process went."""

    task: str
    attempt: int | None = None
    """Whose end it is; None: of the attempt that is under way."""
    exit_code: int | None = None
    signal: str = ""
    outcome: Outcome | None = None
    message: str = ""
    """Why, where it was not the task's own doing; what went wrong in finding out."""


class Quiet(PeerStruct):
    """A task that has made no step, said no word and used no processor for ``seconds``, as its host reports it."""

    id: str
    """Its ``task_id``."""
    seconds: float
    steps: int = 0
    """How many it had made before that."""
    longest_s: float = 0.0
    """The longest time between two of them."""
    waits: bool = False
    """Whether it waits for other tasks in a collective."""


def leave_next(spec: TaskSpec) -> None:
    """Write into the directory of a task that lives what the next attempt is like. Raises OSError."""
    private.write_file(Path(spec.task_dir) / _NEXT, msgspec.json.encode(spec))


def read_next(task_dir: Path) -> TaskSpec:
    """What ``leave_next`` has written last. Raises OSError."""
    return msgspec.json.decode(private.read_file(task_dir / _NEXT), type=TaskSpec)


class ProfileOrder(PeerStruct):
    """What a task is told of steps that somebody wants to see traced."""

    number: int
    """Of the run's profiles, counted from 1."""
    steps: int
    first: int = 0
    """The step to begin with, which all tasks have before them. 0, or one that is past: each begins when it can."""


def leave_profile(task_dir: Path, order: ProfileOrder) -> None:
    """Write into the directory of a task that lives what it is to trace. Raises OSError."""
    private.write_file(task_dir / _PROFILE, msgspec.json.encode(order))


def read_profile(task_dir: Path) -> ProfileOrder:
    """What ``leave_profile`` has written last. Raises OSError."""
    return msgspec.json.decode(private.read_file(task_dir / _PROFILE), type=ProfileOrder)


def leave_without(task_dir: Path, tasks: list[str]) -> None:
    """Write into the directory of a task that lives which lost tasks there is no room for. Raises OSError."""
    private.write_file(task_dir / _WITHOUT, msgspec.json.encode(tasks))


def read_without(task_dir: Path) -> frozenset[str]:
    """What ``leave_without`` has written last. Raises OSError."""
    return msgspec.json.decode(private.read_file(task_dir / _WITHOUT), type=frozenset[str])


class Pace(PeerStruct):
    """How far a task is, as its host reports it. Of two of them the difference tells."""

    id: str
    """Its ``task_id``."""
    step: float
    """The last that its program has reported."""
    at_s: float
    """When it did, by a clock of the task's own."""
    waited_s: float
    """Seconds that it had waited for other tasks until then."""


def leave_outcome(task_dir: Path, outcome: Outcome) -> None:
    """Write a task's outcome into its directory: whole or not at all."""
    for field in ("message", "traceback", "error"):
        setattr(outcome, field, printable(getattr(outcome, field), MOST_TOLD))
    private.write_file(task_dir / _OUTCOME, msgspec.msgpack.encode(outcome))


def read_outcome(task_dir: Path) -> Outcome | None:
    """What the task left, or None if it died before it could. Raises OSError or msgspec.MsgspecError if it is broken.

    The directory is the program's too: what is no plain file is not waited for.
    """
    try:
        fd = os.open(task_dir / _OUTCOME, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError("it is no plain file")
        return msgspec.msgpack.decode(file.read(), type=Outcome)


def remove_runs_of(host: int, machine: Path, shared: Path) -> None:
    """Remove the directories of the runs of one host, ``<run>-<pid of the host>``, and what only it had in memory."""
    for directory in machine.glob(f"[0-9]*-{host}"):
        shutil.rmtree(directory, ignore_errors=True)
        run = directory.name.removesuffix(f"-{host}")
        if not any(machine.glob(f"{run}-*")):  # no other host of this machine has tasks of it
            shutil.rmtree(shared / run, ignore_errors=True)
