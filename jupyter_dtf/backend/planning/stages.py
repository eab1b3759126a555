"""Cuts a chain of layers into contiguous stages, one per device used. Pure.

The time of a stage for one microbatch is the time of its computation plus the time of its transfers, forward and
backward, as if none of these overlapped. The cuts minimize the time of the slowest stage within the memory limits;
among the best cuts into one, two and more stages, the one with the shortest step is chosen. A step takes the sum over
all stages for the first microbatch, plus the slowest stage for each further one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...schema.placement import Device, Link
from .costs import Costs, Floats

_MOST_CUTS = 1_200
"""The maximum number of positions at which a chain may be cut."""
_MOST_STATES = 5_000
"""The maximum number of sets of used devices that are searched. Eight different devices have 256 such sets."""
_BLOCK = 64
_ROUNDING = 1 + 1e-9

Ints = npt.NDArray[np.int64]
Used = tuple[int, ...]
"""The number of devices in use, indexed by kind."""


@dataclass(frozen=True)
class Stage:
    """The work of one device for one microbatch."""

    device: str
    layers: list[str]
    seconds: float
    """Seconds of both passes, including the transfers and the stage's share of the update."""


@dataclass(frozen=True)
class Stages:
    """Stages in the order in which an example passes through them."""

    stages: list[Stage]
    step_seconds: float


@dataclass(frozen=True)
class _Kind:
    """Interchangeable devices. ``table[i, j]``: seconds of a stage from cut i to cut j on one of them."""

    devices: list[Device]
    table: Floats

    @property
    def rate(self) -> float:
        return self.devices[0].flops_per_s


@dataclass(frozen=True)
class _Way:
    """Stages in order, each as (first cut, last cut, index of the kind of device)."""

    stages: list[tuple[int, int, int]]

    def seconds(self, kinds: Sequence[_Kind]) -> list[float]:
        return [float(kinds[number].table[first, last]) for first, last, number in self.stages]

    def step(self, kinds: Sequence[_Kind], microbatches: int) -> float:
        seconds = self.seconds(kinds)
        return sum(seconds) + (microbatches - 1) * max(seconds)


def cut(
    costs: Costs,
    devices: Sequence[Device],
    link: Link,
    pinned: Mapping[str, str],
    busy: Mapping[str, float],
) -> Stages | None:
    """Return the fastest stages, or None if the layers do not fit. The arguments are those of ``ways``."""
    found = ways(costs, devices, link, pinned, busy)
    return found[0] if found else None


def ways(
    costs: Costs,
    devices: Sequence[Device],
    link: Link,
    pinned: Mapping[str, str],
    busy: Mapping[str, float],
) -> list[Stages]:
    """Return the best stages for each tried number and order of devices, fastest first; none if the layers do not fit.

    ``pinned`` maps layers to the devices they must be on. ``busy``: seconds per microbatch of a device's other work.

    With many kinds of device (more than 12 that all differ), only the given order and the order of decreasing speed are
    tried.
    """
    row = _Row(costs, link)
    kinds = _kinds(row, devices, pinned, busy)
    tried = [way for order in _orders(kinds) for way in _in_order(kinds, order)]
    known = min((way.step(kinds, costs.microbatches) for way in tried), default=math.inf)
    alone = float(row.work[-1]) / max(kind.rate for kind in kinds)
    together = float(row.work[-1]) / sum(device.flops_per_s for device in devices)
    states = math.prod(len(kind.devices) + 1 for kind in kinds)
    if known > (alone + (costs.microbatches - 1) * together) * _ROUNDING and states <= _MOST_STATES:
        bound = _slowest_of_interest(known, alone, costs.microbatches)
        tried = [*_best_ways(kinds, bound, row.work), *tried]
    tried.sort(key=lambda way: way.step(kinds, costs.microbatches))
    return [_with_devices(way, kinds, row, costs.microbatches) for way in tried]


def _with_devices(way: _Way, kinds: Sequence[_Kind], row: _Row, microbatches: int) -> Stages:
    left = [iter(kind.devices) for kind in kinds]
    stages = [
        Stage(next(left[number]).name, row.layers(first, last), seconds)
        for (first, last, number), seconds in zip(way.stages, way.seconds(kinds), strict=True)
    ]
    return Stages(stages, way.step(kinds, microbatches))


def _slowest_of_interest(step: float, work: float, microbatches: int) -> float:
    """Return the longest time that the slowest stage may take if the step must not take longer than ``step``.

    ``work``: seconds of all layers on the fastest device, a lower bound for the sum over the stages.
    """
    if not math.isfinite(step) or microbatches == 1:
        return step * _ROUNDING
    bound = (step - work) / (microbatches - 1)
    return (bound if bound <= work else step / microbatches) * _ROUNDING


class _Row:
    """The costs of all possible stages of the chain, indexed by the cuts at which they begin and end."""

    def __init__(self, costs: Costs, link: Link) -> None:
        self._names = costs.names
        self._per_example = costs.edges
        self._examples = costs.examples
        self._batch_size = costs.batch_size
        self._link = link
        work = _sums(costs.per_microbatch)
        self.cuts = self._places(work)
        self.work = work[self.cuts]
        """The cumulative work up to each cut."""
        self._memory = _sums(costs.memory)[self.cuts]
        self._incoming, self._outgoing = self._traffic()

    def layers(self, first: int, last: int) -> list[str]:
        return self._names[self.cuts[first] : self.cuts[last]]

    def seconds(self, device: Device, pinned: Mapping[str, str], busy: float) -> Floats:
        """Return the seconds of a stage from cut i to cut j on the device, at [i, j]; infinite if it is not allowed."""
        seconds: Floats = (self.work[None, :] - self.work[:, None]) / device.flops_per_s + busy
        for bytes_ in (self._incoming, self._outgoing):  # sent in the forward pass and returned in the backward pass
            seconds += 2 * (bytes_ * self._examples / self._link.bytes_per_s + self._link.latency_s * (bytes_ > 0))
        if device.memory_bytes:
            memory = self._memory[None, :] - self._memory[:, None] + self._incoming * self._batch_size
            seconds[memory > device.memory_bytes] = np.inf
        elsewhere = _sums([float(pinned.get(name, device.name) != device.name) for name in self._names])[self.cuts]
        seconds[elsewhere[None, :] > elsewhere[:, None]] = np.inf
        seconds[np.tril_indices(len(self.cuts))] = np.inf  # a stage has at least one layer
        return seconds

    def _places(self, work: Floats) -> Ints:
        """Return the positions at which the chain may be cut: all or, in a long chain, the cheapest of each range."""
        length = len(work) - 1
        if length < _MOST_CUTS:
            return np.arange(length + 1)
        crossing = np.zeros(length + 1)
        np.add.at(crossing, self._per_example[:, 0] + 1, self._per_example[:, 2])
        np.add.at(crossing, self._per_example[:, 1] + 1, -self._per_example[:, 2])
        crossing = np.cumsum(crossing)
        progress = work / max(work[-1], 1e-300) + np.arange(length + 1) / length
        stretch = np.minimum((progress / progress[-1] * (_MOST_CUTS - 2)).astype(int), _MOST_CUTS - 3)
        order = np.lexsort((crossing, stretch))
        order = order[(order > 0) & (order < length)]
        firsts = np.unique(stretch[order], return_index=True)[1]
        return np.concatenate([[0], np.sort(order[firsts]), [length]])

    def _traffic(self) -> tuple[Floats, Floats]:
        """Return the bytes that a stage from cut i to cut j receives and sends, at [i, j].

        An output that several layers of a stage need is sent to the stage only once.
        """
        size = len(self.cuts)
        incoming, outgoing = np.zeros((size + 1, size + 1)), np.zeros((size + 1, size + 1))
        blocks = np.searchsorted(self.cuts, self._per_example[:, :2], side="right")  # the cut after a block
        sources, targets, sizes = blocks[:, 0], blocks[:, 1], self._per_example[:, 2]
        order = np.lexsort((targets, self._per_example[:, 0]))
        number, sources, targets, sizes = self._per_example[order, 0], sources[order], targets[order], sizes[order]
        same = np.concatenate([[False], number[1:] == number[:-1]])
        previous = np.where(same, np.concatenate([[0], targets[:-1]]), sources)
        # In a stage that begins at cut i, this is the first target of its source if ``previous`` <= i < ``targets``.
        _add(sizes, incoming, (previous, targets), (targets, np.full(len(targets), size)))
        last = np.concatenate([number[1:] != number[:-1], [True]])[: len(number)]
        most = np.maximum.reduceat(sizes, np.flatnonzero(~same)) if len(sizes) else sizes
        _add(most, outgoing, (np.zeros(last.sum(), int), sources[last]), (sources[last], targets[last]))
        return _filled(incoming), _filled(outgoing)


def _add(values: Ints, into: Floats, rows: tuple[Ints, Ints], columns: tuple[Ints, Ints]) -> None:
    """Add each value to a half-open rectangle of a difference array, by writing its corners."""
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        np.add.at(into, (rows[row], columns[column]), values if row == column else -values)


def _filled(corners: Floats) -> Floats:
    filled: Floats = np.cumsum(np.cumsum(corners, 0), 1)[:-1, :-1]
    return filled


def _kinds(row: _Row, devices: Sequence[Device], pinned: Mapping[str, str], busy: Mapping[str, float]) -> list[_Kind]:
    wanted = {*pinned.values(), *busy}
    alike: dict[tuple[float, int, str], list[Device]] = {}
    for device in devices:
        own = device.name if device.name in wanted else ""
        alike.setdefault((device.flops_per_s, device.memory_bytes, own), []).append(device)
    return [_Kind(same, row.seconds(same[0], pinned, busy.get(same[0].name, 0.0))) for same in alike.values()]


def _orders(kinds: Sequence[_Kind]) -> list[list[int]]:
    """Return the orders of devices to try, as indices of their kinds: the given order, and fastest first."""
    given = [number for number, kind in enumerate(kinds) for _ in kind.devices]
    return [given, sorted(given, key=lambda number: -kinds[number].rate)]


def _in_order(kinds: Sequence[_Kind], order: Sequence[int]) -> Iterator[_Way]:
    """Yield the best ways to use the devices in this order, possibly skipping some, and to use each device alone."""
    size = len(kinds[0].table)
    slowest = np.full(size, np.inf)
    slowest[0] = 0.0
    steps = []
    for number in order:
        reached, start = _after(slowest, kinds[number].table, np.full(size, size))
        better = reached < slowest
        steps.append((better, start, number))
        slowest = np.where(better, reached, slowest)
    if np.isfinite(slowest[-1]):
        stages, at = [], size - 1
        for better, start, number in reversed(steps):
            if better[at]:
                stages.append((int(start[at]), at, number))
                at = int(start[at])
        yield _Way(stages[::-1])
    for number, kind in enumerate(kinds):
        if np.isfinite(kind.table[0, -1]):
            yield _Way([(0, size - 1, number)])


def _best_ways(kinds: Sequence[_Kind], bound: float, work: Floats) -> Iterator[_Way]:
    """Yield, for each number of stages, the way whose slowest stage is fastest, if that stage is within ``bound``.

    This is dynamic programming over the number of devices of each kind in use: for every cut, the time of the slowest
    stage before the cut is computed. Cuts from which the remaining devices cannot finish within the bound are pruned.
    """
    size = len(work)
    tables = [np.where(kind.table <= bound, kind.table, np.inf) for kind in kinds]
    ends = [size - np.argmax(np.isfinite(table[:, ::-1]), 1) for table in tables]
    for table, end in zip(tables, ends, strict=True):
        end[~np.isfinite(table).any(1)] = 0
    rates = np.array([kind.rate for kind in kinds])
    counts = np.array([len(kind.devices) for kind in kinds])
    none = (0,) * len(kinds)
    slowest: dict[Used, Floats] = {none: np.full(size, np.inf)}
    slowest[none][0] = 0.0
    before: dict[Used, tuple[Ints, Ints]] = {}
    states = [none]
    for _ in range(counts.sum()):
        grown: dict[Used, None] = {}
        for used in states:
            left = counts - used
            reach = slowest[used].copy()
            if math.isfinite(bound):
                reach[work[-1] - work > bound * float(rates @ left)] = np.inf
            for number in np.flatnonzero(left):
                more = (*used[:number], used[number] + 1, *used[number + 1 :])
                reached, start = _after(reach, tables[number], ends[number])
                if more not in slowest:
                    slowest[more] = np.full(size, np.inf)
                    before[more] = (np.zeros(size, np.int64), np.zeros(size, np.int64))
                better = reached < slowest[more]
                slowest[more][better] = reached[better]
                before[more][0][better] = start[better]
                before[more][1][better] = number
                grown[more] = None
        states = list(grown)
        best = min(states, key=lambda used: slowest[used][-1])
        if np.isfinite(slowest[best][-1]):
            yield _way_back(best, before)


def _after(slowest: Floats, table: Floats, ends: Ints) -> tuple[Floats, Ints]:
    """Add one stage; return, for every cut, the time of the slowest stage before it and the start of the last stage.

    ``ends``: for every cut, the exclusive end of the stages that begin there.
    """
    reached, start = np.full(len(slowest), np.inf), np.zeros(len(slowest), np.int64)
    begins = np.flatnonzero(np.isfinite(slowest))
    if not len(begins):
        return reached, start
    for low in range(begins[0], begins[-1] + 1, _BLOCK):
        high = min(low + _BLOCK, begins[-1] + 1)
        end = int(ends[low:high].max())
        if end <= low + 1:
            continue
        worst = np.maximum(slowest[low:high, None], table[low:high, low + 1 : end])
        first = worst.argmin(0)
        values = worst[first, np.arange(len(first))]
        better = values < reached[low + 1 : end]
        reached[low + 1 : end][better] = values[better]
        start[low + 1 : end][better] = low + first[better]
    return reached, start


def _way_back(used: Used, before: Mapping[Used, tuple[Ints, Ints]]) -> _Way:
    stages = []
    at = len(before[used][0]) - 1
    while any(used):
        starts, numbers = before[used]
        number = int(numbers[at])
        stages.append((int(starts[at]), at, number))
        at = int(starts[at])
        used = (*used[:number], used[number] - 1, *used[number + 1 :])
    return _Way(stages[::-1])


def _sums(values: Floats | Sequence[float]) -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.asarray(values, float))])
