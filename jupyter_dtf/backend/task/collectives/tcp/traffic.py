"""Measures exchanges with other machines, in bytes and seconds. Reports figures periodically, and totals per peer at
the end.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from .....schema.sizes import bytes_, seconds_
from .wires import Incoming, Outgoing

EVERY_S = 2.0
WORTH_TELLING_S = 10.0
"""The shortest total time of exchanges, in seconds, for which figures per pair of tasks are reported."""


_MOST_PEERS = 8
"""The maximum number of peers for which figures are reported: those that are sent the most bytes. A ring has only one.
"""
_WORTH_SHARE = 0.01
"""The share of all traffic above which a peer is reported; a smaller share is only the overhead of exchanges."""


class Traffic:
    """Measures traffic.

    Calls ``measured(figures)`` periodically, and ``told(text)`` at the end if the exchanges took a long time.
    ``step()`` returns the program's current step. If the program reports steps, the figures for each peer are per step,
    otherwise per exchange.
    """

    def __init__(
        self,
        task: str,
        measured: Callable[[Mapping[str, float]], None],
        told: Callable[[str], None],
        step: Callable[[], float],
    ) -> None:
        self.waited: defaultdict[int, float] = defaultdict(float)
        """The seconds spent waiting for each task, keyed by its rank in the set."""
        self._task = task
        self._measured = measured
        self._told = told
        self._step = step
        self._seconds = 0.0
        self._exchanges = 0
        self._since = time.monotonic()
        self._before = _Sum(0.0, 0, step(), {})

    def add(self, seconds: float, out: Mapping[int, Outgoing]) -> None:
        """Count an exchange that took ``seconds``, and report the figures every ``EVERY_S`` seconds."""
        self._seconds += seconds
        self._exchanges += 1
        now = time.monotonic()
        if (passed := now - self._since) >= EVERY_S:
            pairs = {wire.peer.task: (wire.sent, wire.busy_s) for wire in out.values()}
            total = _Sum(self._seconds, self._exchanges, self._step(), pairs)
            self._measured(_figures(self._before, total, passed))
            self._since, self._before = now, total

    def end(self, out: Mapping[int, Outgoing], incoming: Mapping[int, Incoming]) -> None:
        """Report the totals per pair of tasks. Must be called after the last exchange over these connections."""
        if self._seconds < WORTH_TELLING_S:
            return
        pairs = [
            f"{self._task} sent {bytes_(wire.sent)} to {wire.peer.task} at {wire.peer.host}, received "
            f"{bytes_(incoming[other].received)} from it, and waited {seconds_(self.waited[other])} for it"
            for other, wire in out.items()
        ]
        self._told(f"{self._exchanges:,} exchanges took {seconds_(self._seconds)}. {'; '.join(pairs)}")


class _Sum(NamedTuple):
    """The totals up to a point in time."""

    seconds: float
    exchanges: int
    step: float
    pairs: Mapping[str, tuple[int, float]]
    """The bytes sent to each task, and the seconds that sending took. New connections count from zero."""


def _figures(before: _Sum, now: _Sum, passed_s: float) -> dict[str, float]:
    steps = now.step - before.step
    if steps <= 0:  # the program reports no steps
        steps = now.exchanges - before.exchanges
    sent = {}
    for task, (count, seconds) in now.pairs.items():
        known, known_s = before.pairs.get(task, (0, 0.0))
        sent[task] = (count - known, seconds - known_s) if count >= known else (count, seconds)
    total = sum(count for count, _ in sent.values())
    figures = {
        "network_bytes_per_second": total / passed_s,
        "network_seconds": (now.seconds - before.seconds) / passed_s,
    }
    most = sorted(sent, key=lambda task: sent[task][0], reverse=True)[:_MOST_PEERS]
    for task in most:
        count, seconds = sent[task]
        if count > _WORTH_SHARE * total:
            figures[f"bytes_per_step_to_{task}"] = count / steps
            figures[f"seconds_per_step_to_{task}"] = seconds / steps
    return figures
