"""What a task spends beside its own computing: waiting for others, exchanges, snapshots for checkpoints.

Every exchange of our own adds to it. The time of TensorFlow's collectives and of remote graphs is not known here.
"""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

waited_s = 0.0
"""The seconds that this process has waited for other tasks."""


class Totals(NamedTuple):
    """Seconds of this process so far."""

    exchanged_s: float
    """In which an exchange was under way, whatever else was computed meanwhile."""
    waited_s: float
    """Of them, for which others were waited for."""
    saved_s: float
    """In which the thread that trains took snapshots for checkpoints."""


def waited(seconds: float) -> None:
    """Add time spent waiting for others. Not thread-safe: only one thread at a time is in a collective."""
    global waited_s
    waited_s += seconds


class _Exchanging:
    """``with exchanging:`` around an exchange. Those within others, and beside them, are one: time is counted once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._lock = threading.Lock()
        self._under_way = 0
        self._since = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if not self._under_way:
                self._since = time.perf_counter()
            self._under_way += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._under_way -= 1
            if not self._under_way:
                self.seconds += time.perf_counter() - self._since


class _Saving:
    """``with saving:`` around a snapshot, in the thread that trains. Exchanges in it count as such, not here."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._begun = 0.0
        self._exchanged_s = 0.0

    def __enter__(self) -> None:
        self._begun, self._exchanged_s = time.perf_counter(), exchanging.seconds

    def __exit__(self, *error: object) -> None:
        exchanged_s = exchanging.seconds - self._exchanged_s
        self.seconds += max(0.0, time.perf_counter() - self._begun - exchanged_s)


exchanging = _Exchanging()
saving = _Saving()


def totals() -> Totals:
    """What it all comes to by now."""
    return Totals(exchanging.seconds, waited_s, saving.seconds)
