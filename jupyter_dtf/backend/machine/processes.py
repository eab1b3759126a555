"""What the kernel says of processes: who one is, whether it is stopped, how it ended. Reads Linux's ``/proc``."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


class Stat(NamedTuple):
    """One line of ``/proc/<pid>/stat``."""

    pid: int
    state: str
    """``R`` running, ``S`` and ``D`` waiting, ``T`` and ``t`` stopped, ``Z`` ended and not yet collected."""
    parent: int
    group: int
    session: int
    started: int
    """When it was made, in ticks since the machine's start: with the pid, who it is."""
    status: int
    """How it ended, as ``waitpid`` gives it, once it is a zombie; 0 where this user may not know."""
    cpu_s: float
    """Seconds of processor time that its threads have used."""

    @property
    def has_ended(self) -> bool:
        return self.state in "ZX"

    @property
    def is_stopped(self) -> bool:
        return self.state in "Tt"


def stat_of(pid: int) -> Stat | None:
    """None for a process that is not there, and where there is no ``/proc``."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    words = text[text.rindex(")") + 2 :].split()  # a name may have blanks and brackets in it
    cpu_s = (int(words[11]) + int(words[12])) / _TICKS
    return Stat(pid, words[0], int(words[1]), int(words[2]), int(words[3]), int(words[19]), int(words[49]), cpu_s)


def is_traced(pid: int) -> bool:
    """Whether a debugger has a process, and may be holding it."""
    try:
        lines = (_PROC / str(pid) / "status").read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(line.startswith("TracerPid:") and line.split()[1] != "0" for line in lines)


def has_children(pid: int) -> bool:
    """Whether a process has started others that have not ended."""
    try:
        return any((task / "children").read_text().strip() for task in (_PROC / str(pid) / "task").iterdir())
    except OSError:
        return False


def signal_name(number: int) -> str:
    """``SIGKILL``; ``signal 40`` for one that Python has no name for."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_words(name: str) -> str:
    """How a signal reads in a sentence: real-time signals have no name of their own, but a place after the first."""
    number = int(name.removeprefix("signal ")) if name.startswith("signal ") else 0
    first, last = int(signal.SIGRTMIN), int(signal.SIGRTMAX)
    return f"{name}, SIGRTMIN+{number - first}" if first <= number <= last else name


def how_it_ended(status: int) -> str:
    """A sentence's predicate from what ``waitpid`` gives: ``was killed (SIGKILL)``, ``ended with status 1``."""
    if os.WIFSIGNALED(status):
        return f"was killed ({signal_words(signal_name(os.WTERMSIG(status)))})"
    return f"ended with status {os.waitstatus_to_exitcode(status)}"


class Handle:
    """One process that is not this one's child, and no other, even if its number is used again."""

    def __init__(self, pid: int, parent: int = 0) -> None:
        """``parent``, where it is known, has to be its parent. Raises ProcessLookupError if it is not there."""
        self.pid = pid
        self.fd = os.pidfd_open(pid)
        stat = stat_of(pid)
        if stat is None or (parent and stat.parent != parent):
            self.close()
            raise ProcessLookupError(f"There is no such process. Received: {pid}")

    @property
    def has_ended(self) -> bool:
        """Whether it has, collected by its parent or not."""
        if self.fd < 0:
            return True
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return bool(poll.poll(0))

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; whether it came."""
        if self.fd < 0:
            return True
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def signal_group(self, number: int) -> None:
        """Send a signal to its process group, of which it is the leader; nothing if it has ended."""
        if not self.has_ended:  # while it lives, or nobody has collected it, its number is its group's
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def kill(self) -> None:
        """End it, stopped or not; nothing if it has ended."""
        if self.fd >= 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self.fd, signal.SIGKILL)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
