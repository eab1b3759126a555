"""What ended tasks and hosts leave to the warm process: processes that nobody ends any more, and directories."""

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
    """Have the kernel send SIGKILL to this process when its parent, or the thread that forked it, ends (Linux)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Have what descends from this process become its child when its own parent ends, whatever session it is in."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_orphans(known: Collection[int]) -> None:
    """Kill the children of this process that are not ``known``.

    A task adopts what its own children leave, so what has come here has no task any more. Its own children come here
    when it has ended: to be called after each end, until there is none. Nothing else can have these numbers before
    they are waited for here.
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
class Estate:
    """The directories of a host that has gone, to be removed when its tasks are gone too."""

    host: int
    """Its process id."""
    tasks: set[int]

    def settle(self, ended: int, machine: Path, shared: Path) -> bool:
        """The process ``ended`` has (0: nothing has yet). Returns whether all is settled now."""
        self.tasks.discard(ended)
        if not self.tasks:
            remove_runs_of(self.host, machine, shared)
        return not self.tasks
