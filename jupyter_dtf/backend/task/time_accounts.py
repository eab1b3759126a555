"""The time that a task spends on anything but its own computation: waiting, exchanges, snapshots for checkpoints.

All exchanges that this package implements are counted. The time spent in TensorFlow's collectives and in remote graphs
is not known here.
"""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

waited_s = 0.0
"""The time that this process has spent waiting for other tasks, in seconds."""


class Totals(NamedTuple):
    """The time that this process has spent on each of these activities so far, in seconds."""

    exchanged_s: float
    """The time during which an exchange was in progress, even if the process was computing at the same time."""
    waited_s: float
    """The part of ``exchanged_s`` spent waiting for other tasks."""
    saved_s: float
    """The time that the training thread has spent taking snapshots for checkpoints."""


def waited(seconds: float) -> None:
    """Add time spent waiting for others. This need not be thread-safe, because only one thread at a time is in a
    collective.
    """
    global waited_s
    waited_s += seconds


class _Exchanging:
    """Measures exchanges: ``with exchanging:``. The time of nested and concurrent exchanges is counted only once."""

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
    """Measures snapshots in the training thread: ``with saving:``. Exchanges within a snapshot are not included."""

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
    """Return the totals so far."""
    return Totals(exchanging.seconds, waited_s, saving.seconds)
