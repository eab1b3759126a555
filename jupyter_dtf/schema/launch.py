"""What a host is told of a task it shall start, and what a task leaves behind when it ends."""

from __future__ import annotations

from pathlib import Path

import msgspec

from .base import Struct

_OUTCOME = "outcome.msgpack"


class TaskSpec(Struct):
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
    """The most that TensorFlow takes of each; 0: what it needs, as it needs it."""
    may_be_spare: bool = False
    """Whether a process may run it in which TensorFlow's runtime has been started, with so many threads."""
    trace_steps: list[int] = []
    """``[first, last]``: the steps to trace; empty: none."""
    secret: str = ""
    """32 random bytes as hex digits, which the tasks of the run know and nobody else."""
    # Filled in by the host:
    shared_dir: str = ""
    task_dir: str = ""
    payload: str = ""
    """The path of the program's payload."""

    @property
    def task(self) -> str:
        """The short name, ``worker:1``."""
        return f"{self.job_name}:{self.task_index}"


class Outcome(Struct):
    """How a task's program ended. Absent when the process died without a word."""

    ok: bool
    message: str = ""
    """The last line of the traceback."""
    traceback: str = ""
    error: str = ""
    """The class of the exception, with its module."""
    result: bytes = b""
    """The pickled return value."""


class TaskResult(Struct):
    """The end of a task, as its host reports it: ``exit_code`` or ``signal`` says how the process went."""

    task: str
    exit_code: int | None = None
    signal: str = ""
    outcome: Outcome | None = None


def leave_outcome(task_dir: Path, outcome: Outcome) -> None:
    """Write a task's outcome into its directory: whole or not at all."""
    aside = task_dir / f".{_OUTCOME}"
    aside.write_bytes(msgspec.msgpack.encode(outcome))
    aside.replace(task_dir / _OUTCOME)


def read_outcome(task_dir: Path) -> Outcome | None:
    """What the task left, or None if it died before it could."""
    try:
        return msgspec.msgpack.decode((task_dir / _OUTCOME).read_bytes(), type=Outcome)
    except FileNotFoundError:
        return None
