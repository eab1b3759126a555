"""Detects frozen tasks (stopped, or without heartbeats), as opposed to slow tasks. Pure.

A task that sends heartbeats but does nothing may be stalled, depending on the other tasks
(``backend/cluster/stalls.py``).

A thread of each task sends heartbeats (``backend/task/heartbeat.py``). A task too busy to send them uses CPU time, and
one held by a debugger is traced, so neither counts as frozen. Time in which no check was made, because this process
itself was delayed, does not count, but earlier observations do: otherwise nothing would ever be detected on an
overloaded machine. After the machine has slept, everything starts over.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...schema.sizes import duration

LOOK_S = 0.5
"""The interval between two checks, in seconds."""
STOPPED_S = 3.0
"""The time in seconds for which a task must have been stopped to be considered frozen."""
SILENT_S = 60.0
"""The time in seconds without heartbeats and CPU time after which a task is considered frozen. Swapping can delay a
heartbeat.
"""
_SUSPECT_S = 2.0
_WINDOW_S = 1.0
_BUSY = 0.1
"""The fraction of one CPU above which a task counts as busy; waiting uses less."""
_GAP_S = 4 * LOOK_S
_SLEPT_S = 1.0


class Seen(NamedTuple):
    """The kernel's information about a process at one moment."""

    state: str
    """The state of the process, as in ``/proc/<pid>/stat``."""
    is_traced: bool
    """Whether a debugger is attached."""
    cpu_s: float
    """The CPU time that the process has used, in seconds."""


class TaskWatch:
    """Watches one task with repeated checks, starting at ``now`` (monotonic seconds)."""

    def __init__(self, now: float) -> None:
        self._stopped_since: float | None = None
        self._alive_at = now
        self._beats = 0
        self._cpu_s = 0.0

    def again(self, now: float) -> None:
        """Forget everything before ``now``."""
        self._stopped_since, self._alive_at = None, now

    def unseen(self, now: float, seconds: float) -> None:
        """Discount ``seconds`` of the time before ``now``; if infinite, forget everything before."""
        if math.isinf(seconds):
            self.again(now)
            return
        self._alive_at = min(now, self._alive_at + seconds)
        if self._stopped_since is not None:
            self._stopped_since = min(now, self._stopped_since + seconds)

    def suspects(self, now: float) -> bool:
        """Return whether the task has shown no sign of life for a while, perhaps because a debugger is attached."""
        return now - self._alive_at > _SUSPECT_S

    def look(self, now: float, seen: Seen, beats: int, *, can_beat: bool = True) -> str:
        """Return a phrase that says why the task is considered frozen, or an empty string if it is not.

        Args:
            now: The current time, in monotonic seconds.
            seen: The kernel's information about the task's process.
            beats: The number of heartbeats received so far.
            can_beat: Whether the pipe for heartbeats is still open.
        """
        if seen.is_traced:
            self.again(now)
        elif seen.state == "T":
            self._stopped_since = now if self._stopped_since is None else self._stopped_since
            if (for_s := now - self._stopped_since) >= STOPPED_S:
                return f"has been stopped (SIGSTOP) for {duration(for_s)}"
            return ""
        self._stopped_since = None
        if beats != self._beats or seen.cpu_s > self._cpu_s or not can_beat:
            self._alive_at, self._beats, self._cpu_s = now, beats, seen.cpu_s
        if (for_s := now - self._alive_at) < SILENT_S:
            return ""
        if seen.state == "D":
            return f"has been waiting for a device or a file system for {duration(for_s)} and does not respond"
        return f"has not responded for {duration(for_s)} and uses no CPU time"


class Steps:
    """The progress of one task from ``now`` on, and how long the task has been idle."""

    def __init__(self, now: float) -> None:
        self.count = 0
        """The number of steps completed."""
        self.longest_s = 0.0
        """The longest observed time between two steps, in seconds."""
        self._stepped_at = self._busy_at = self._window_at = now
        self._window_cpu_s = 0.0

    def quiet_s(self, now: float) -> float:
        """Return how long the task has been idle, in seconds."""
        return now - self._busy_at

    def word(self, now: float) -> None:
        """Count the task as active at ``now``: it has sent something, or the time before must not count."""
        self._busy_at = max(self._busy_at, now)

    def unseen(self, now: float, seconds: float) -> None:
        """Discount ``seconds`` of the time before ``now``."""
        self.word(min(now, self._busy_at + seconds))

    def look(self, now: float, count: int, cpu_s: float) -> None:
        """Update with the number of steps completed and the CPU time used since the task began."""
        if count != self.count:
            if self.count:
                self.longest_s = max(self.longest_s, now - self._stepped_at)
            self._stepped_at, self.count = now, count
            self.word(now)
        if now - self._window_at >= _WINDOW_S:
            if cpu_s - self._window_cpu_s > _BUSY * (now - self._window_at):
                self.word(now)
            self._window_at, self._window_cpu_s = now, cpu_s


class Gaps:
    """Measures the time that passed unobserved between two checks, because the machine slept or this process was
    delayed.
    """

    def __init__(self, now: float, with_sleep: float) -> None:
        """Begin at ``now``, on a clock that stops while the machine sleeps. ``with_sleep`` is the same time on a clock
        that does not.
        """
        self._now, self._slept = now, with_sleep - now

    def look(self, now: float, with_sleep: float) -> float:
        """Return the seconds since the last check that do not count: usually 0, infinite after a sleep."""
        since, slept = now - self._now, with_sleep - now - self._slept
        self._now, self._slept = now, with_sleep - now
        if slept > _SLEPT_S:
            return math.inf
        return since - LOOK_S if since > _GAP_S else 0.0
