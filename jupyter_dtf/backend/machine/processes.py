"""The kernel's information about processes, such as their identity, state and exit status, from Linux's ``/proc``."""

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
    """``R`` running, ``S`` and ``D`` waiting, ``T`` and ``t`` stopped, ``Z`` ended but not reaped."""
    parent: int
    group: int
    session: int
    started: int
    """When the process was created, in clock ticks since boot. Together with the pid, this identifies the process."""
    status: int
    """The exit status in the format of ``waitpid``, once the process is a zombie; 0 if this user may not read it."""
    cpu_s: float
    """The CPU time that its threads have used, in seconds."""

    @property
    def has_ended(self) -> bool:
        return self.state in "ZX"

    @property
    def is_stopped(self) -> bool:
        return self.state in "Tt"


def stat_of(pid: int) -> Stat | None:
    """Return the ``Stat`` of a process, or None if it does not exist or there is no ``/proc``."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    words = text[text.rindex(")") + 2 :].split()  # the name may contain spaces and parentheses
    cpu_s = (int(words[11]) + int(words[12])) / _TICKS
    return Stat(pid, words[0], int(words[1]), int(words[2]), int(words[3]), int(words[19]), int(words[49]), cpu_s)


def is_traced(pid: int) -> bool:
    """Return whether a debugger is attached to a process, and so may have paused it."""
    try:
        lines = (_PROC / str(pid) / "status").read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(line.startswith("TracerPid:") and line.split()[1] != "0" for line in lines)


def has_children(pid: int) -> bool:
    """Return whether a process has children that have not ended."""
    try:
        return any((task / "children").read_text().strip() for task in (_PROC / str(pid) / "task").iterdir())
    except OSError:
        return False


def signal_name(number: int) -> str:
    """Return the name of a signal, such as ``SIGKILL``, or ``signal 40`` if Python has no name for it."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_words(name: str) -> str:
    """Return a signal's name for use in a sentence, with ``SIGRTMIN+n`` added to real-time signals."""
    number = int(name.removeprefix("signal ")) if name.startswith("signal ") else 0
    first, last = int(signal.SIGRTMIN), int(signal.SIGRTMAX)
    return f"{name}, SIGRTMIN+{number - first}" if first <= number <= last else name


def how_it_ended(status: int) -> str:
    """Return a phrase for a ``waitpid`` status, such as ``was killed (SIGKILL)`` or ``exited with status 1``."""
    if os.WIFSIGNALED(status):
        return f"was killed ({signal_words(signal_name(os.WTERMSIG(status)))})"
    return f"exited with status {os.waitstatus_to_exitcode(status)}"


class Handle:
    """A reference to one process, not necessarily a child, that stays valid even if its id is reused."""

    def __init__(self, pid: int, parent: int = 0) -> None:
        """Open a process, whose parent must be ``parent`` if given. Raises ProcessLookupError if it is gone."""
        self.pid = pid
        self.fd = os.pidfd_open(pid)
        stat = stat_of(pid)
        if stat is None or (parent and stat.parent != parent):
            self.close()
            raise ProcessLookupError(f"`pid` must be the id of a running process, got {pid}")

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended, even if its parent has not reaped it yet."""
        if self.fd < 0:
            return True
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return bool(poll.poll(0))

    def wait(self, timeout_s: float) -> bool:
        """Wait at most ``timeout_s`` seconds for the process to end. Returns whether it has ended."""
        if self.fd < 0:
            return True
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def signal_group(self, number: int) -> None:
        """Send a signal to the process group that this process leads. Does nothing if the process has ended."""
        if not self.has_ended:  # while it is alive, its id cannot be reused for another group
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def kill(self) -> None:
        """Kill the process, even if it is stopped. Does nothing if it has ended."""
        if self.fd >= 0:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self.fd, signal.SIGKILL)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
