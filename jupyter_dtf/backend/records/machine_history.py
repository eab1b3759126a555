"""Keeps figures of machines over time: the last hour as reported, and the day before it as one-minute means. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping

from ...schema.machines import MachineSeries
from ...schema.metrics import host_figure

FINE = 1800
"""The number of values kept as reported: an hour, with one every two seconds."""
COARSE_S = 60.0
COARSE = 1440
"""The number of one-minute means kept of older values: a day."""
MOST_HOSTS = 256
"""The maximum number of hosts with figures. Beyond it, a new host replaces the host that has been silent longest."""
SILENT_S = 60.0
"""A host is replaced only if it has been silent for this long."""


class Ring:
    """The values of one figure of one host, oldest first. The number of values is bounded."""

    def __init__(self) -> None:
        self._fine: deque[tuple[float, float]] = deque()
        self._coarse: deque[tuple[float, float]] = deque(maxlen=COARSE)
        self._minute: list[tuple[float, float]] = []  # values that were in _fine, not averaged yet

    def add(self, time: float, value: float) -> None:
        """Add a value at ``time`` (seconds since the epoch). It is ignored unless it is newer than the last one."""
        if self._fine and time <= self._fine[-1][0]:
            return
        self._fine.append((time, value))
        if len(self._fine) > FINE:
            old = self._fine.popleft()
            if self._minute and old[0] // COARSE_S != self._minute[0][0] // COARSE_S:
                self._coarse.append(_mean(self._minute))
                self._minute = []
            self._minute.append(old)

    def after(self, time: float) -> list[tuple[float, float]]:
        """Return the values after ``time`` as ``(time, value)``, oldest first."""
        last = [_mean(self._minute)] if self._minute else []
        return [point for part in (self._coarse, last, self._fine) for point in part if point[0] > time]


def _mean(points: list[tuple[float, float]]) -> tuple[float, float]:
    times, values = zip(*points, strict=True)
    return sum(times) / len(points), sum(values) / len(points)


class Machines:
    """The figures of a cluster's hosts. Hosts that have left are included, so that plots show them."""

    def __init__(self) -> None:
        self._rings: OrderedDict[str, dict[str, Ring]] = OrderedDict()  # keyed by host, most recently reported last
        self._heard: dict[str, float] = {}

    def add(self, host: str, time: float, figures: Mapping[str, float]) -> None:
        """Add the figures that a host reported at ``time``."""
        if host not in self._rings and len(self._rings) >= MOST_HOSTS:
            longest = next(iter(self._rings))
            if time - self._heard[longest] < SILENT_S:
                return  # if hosts replaced each other, no plot would get a second point
            del self._rings[longest], self._heard[longest]
        rings = self._rings.setdefault(host, {})
        self._rings.move_to_end(host)
        self._heard[host] = time
        for metric, value in figures.items():
            rings.setdefault(metric, Ring()).add(time, value)

    def after(self, time: float) -> list[MachineSeries]:
        """Return every figure of every host since ``time`` (seconds since the epoch), ordered by host."""
        found = []
        for host, rings in sorted(self._rings.items()):
            for metric, ring in rings.items():
                if points := ring.after(time):
                    times, values = zip(*points, strict=True)
                    plot, line, unit, _ = host_figure(metric)
                    series = MachineSeries(host=host, metric=metric, plot=plot, line=line, unit=unit)
                    series.time, series.value = list(times), list(values)
                    found.append(series)
        return found
