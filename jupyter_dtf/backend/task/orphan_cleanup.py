"""Removes the orphaned processes and the directories of ended tasks and hosts. Used by the warm process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ...schema.launch import remove_runs_of

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent() -> None:
    """Make the kernel send SIGKILL to this process when its parent, or the thread that forked it, ends (Linux)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Make this process the parent of all descendants whose parent ends, even of those in another session."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_orphans(known: Collection[int]) -> None:
    """Kill the children of this process that are not in ``known``.

    A task adopts the orphans among its own descendants, so orphans that this process adopts no longer have a task. When
    an orphan is killed, this process adopts its children, so this function must be called after each exit until no
    orphans are left. Process ids cannot be reused before the processes are reaped here.
    """
    me = os.getpid()
    for name in os.listdir("/proc"):
        if name.isdigit() and (pid := int(name)) not in known and _parent(pid) == me:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            text = file.read()
    except OSError:
        return 0
    return int(text[text.rindex(")") + 2 :].split()[1])


@dataclass
class Orphans:
    """The directories of a host that is gone, which are removed after its last task has exited."""

    host: int
    """The host's process id."""
    tasks: set[int]

    def settle(self, ended: int, machine: Path, shared: Path) -> bool:
        """Record the exit of process ``ended`` (0: none). Once no task is left, remove the directories, and return
        True.
        """
        self.tasks.discard(ended)
        if not self.tasks:
            remove_runs_of(self.host, machine, shared)
        return not self.tasks
