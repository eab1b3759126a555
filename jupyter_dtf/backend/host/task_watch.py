"""Tasks that are frozen: stopped, or without a sign of life. What tells them from those that only take long. Pure.

Whether one that gives signs of life but does nothing is stalled depends on the others (``backend/cluster/stalls.py``).

A task beats by a thread of its own (``backend/task/pulse.py``). One that computes and has no time for that uses a
processor; one that a debugger holds is traced. Time in which nobody looked, because this process was held up itself,
does not count; what was seen before does, or on a machine with too much to do nothing would ever be noticed. Where the
machine slept all begins anew.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...schema.sizes import duration

LOOK_S = 0.5
"""Between two looks."""
STOPPED_S = 3.0
"""So long a task has to have been stopped to be held to be frozen."""
SILENT_S = 60.0
"""The same for one that does not beat and uses no processor. A machine that swaps may take long for a beat."""
_SUSPECT_S = 2.0
_WINDOW_S = 1.0
_BUSY = 0.1
"""Of a processor: less is what waiting takes."""
_GAP_S = 4 * LOOK_S
_SLEPT_S = 1.0


class Seen(NamedTuple):
    """What the kernel says of a process at one moment."""

    state: str
    """As in ``/proc/<pid>/stat``."""
    is_traced: bool
    """Whether a debugger has it."""
    cpu_s: float
    """Seconds of processor time that it has used."""


class TaskWatch:
    """One task: looked at again and again, from ``now`` on (seconds that only go up)."""

    def __init__(self, now: float) -> None:
        self._stopped_since: float | None = None
        self._alive_at = now
        self._beats = 0
        self._cpu_s = 0.0

    def again(self, now: float) -> None:
        """Nothing is known of the time before ``now``."""
        self._stopped_since, self._alive_at = None, now

    def unseen(self, now: float, seconds: float) -> None:
        """So many of the seconds before ``now`` do not count; of infinitely many, nothing does that was before."""
        if math.isinf(seconds):
            self.again(now)
            return
        self._alive_at = min(now, self._alive_at + seconds)
        if self._stopped_since is not None:
            self._stopped_since = min(now, self._stopped_since + seconds)

    def suspects(self, now: float) -> bool:
        """Whether it has given no sign of life for a while: it may be that a debugger has it."""
        return now - self._alive_at > _SUSPECT_S

    def look(self, now: float, seen: Seen, beats: int, *, can_beat: bool = True) -> str:
        """Why the task is held to be frozen, as a predicate; empty while it is not.

        ``beats``: how many have come so far. ``can_beat``: whether what they come by is still open.
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
            return f"has been waiting for a device or a file system for {duration(for_s)} and does not answer"
        return f"has not answered for {duration(for_s)} and uses no processor"


class Steps:
    """How far one task is, and since when it does nothing: it has ``now`` begun."""

    def __init__(self, now: float) -> None:
        self.count = 0
        """How many steps it has made."""
        self.longest_s = 0.0
        """Between two of them, as far as was seen."""
        self._stepped_at = self._busy_at = self._window_at = now
        self._window_cpu_s = 0.0

    def quiet_s(self, now: float) -> float:
        """For how long it has done nothing."""
        return now - self._busy_at

    def word(self, now: float) -> None:
        """It has said something, or there is another reason not to count the time before ``now``."""
        self._busy_at = max(self._busy_at, now)

    def unseen(self, now: float, seconds: float) -> None:
        """So many of the seconds before ``now`` do not count."""
        self.word(min(now, self._busy_at + seconds))

    def look(self, now: float, count: int, cpu_s: float) -> None:
        """It has made so many steps, and used ``cpu_s`` seconds of processors since it began."""
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
    """Tells how much time has passed unseen between two looks: the machine slept, or nobody could look."""

    def __init__(self, now: float, with_sleep: float) -> None:
        """``now``: seconds that stand still while the machine sleeps; ``with_sleep``: seconds that do not."""
        self._now, self._slept = now, with_sleep - now

    def look(self, now: float, with_sleep: float) -> float:
        """The seconds since the last look that do not count: 0 mostly, all of them (infinite) after a sleep."""
        since, slept = now - self._now, with_sleep - now - self._slept
        self._now, self._slept = now, with_sleep - now
        if slept > _SLEPT_S:
            return math.inf
        return since - LOOK_S if since > _GAP_S else 0.0
