"""Simulates a step of a pipeline: which device is busy when. Pure.

One forward, one backward: every device runs its passes in the order of their turns (``schema/one_f_one_b.py``).

Fill and drain: every segment of layers runs the forward passes of its microbatches in order and, after all forward
passes of its device, the backward passes in the same order; then the device updates its weights. A device does one
thing at a time, preferring forward passes and earlier microbatches. Transfers from one device to another are sequential
and overlap with computation. A backward pass computes the gradients of a layer's inputs, which other devices wait for,
before the gradients of the layer's weights.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...schema.one_f_one_b import Turns
from ...schema.placement import Link

FORWARD, BACKWARD, UPDATE = ("forward", "backward", "update")


@dataclass
class Segment:
    """Layers of one device that run together. Times are those of one microbatch."""

    device: int
    forward_s: float = 0.0
    backward_s: float = 0.0
    inputs_s: float = 0.0
    """Seconds of the backward pass until the gradients of the segment's inputs are ready."""
    sends: dict[int, float] = field(default_factory=dict)
    """Bytes per microbatch sent forward, keyed by receiving segment. The backward pass sends as many back."""


@dataclass(frozen=True)
class Busy:
    """An interval in which a device is busy."""

    device: int
    microbatch: int
    phase: str
    start_s: float
    duration_s: float


def play(
    segments: Sequence[Segment],
    updates_s: Mapping[int, float],
    microbatches: int,
    link: Link,
    *,
    takes_turns: bool = False,
) -> list[Busy]:
    """Return the busy intervals of all devices in a step, ordered by start time.

    Segments must not form a cycle. ``updates_s``: seconds of the update, keyed by device. ``takes_turns``: one forward,
    one backward, instead of fill and drain.
    """
    if takes_turns:
        found = _play_by_turns(segments, microbatches, link)
    else:
        found = _Play(segments, microbatches, link).run()
    ends: dict[int, float] = {}
    for busy in found:
        ends[busy.device] = max(busy.start_s + busy.duration_s, ends.get(busy.device, 0.0))
    return found + [
        Busy(device, microbatches - 1, UPDATE, ends.get(device, 0.0), duration)
        for device, duration in sorted(updates_s.items())
        if duration
    ]


# -- one forward, one backward -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Levels:
    """The levels of the segments in the forward and the backward pass, as ``levels`` computes them."""

    forward: list[int]
    backward: list[int]
    order: list[int]
    """The segments in topological order."""

    @property
    def turns(self) -> Turns:
        return Turns(max(self.forward, default=0), max(self.backward, default=0))

    def held(self, segment: int, microbatches: int) -> int:
        """Return the maximum number of microbatches whose activations a segment holds at the same time."""
        return min(microbatches, self.turns.held(self.forward[segment], self.backward[segment]))


def levels(segments: Sequence[Segment]) -> Levels:
    """Compute the levels: the number of device changes before each segment, in the forward and in the backward pass."""
    waits = Counter(target for segment in segments for target in segment.sends)
    order = [index for index in range(len(segments)) if not waits[index]]
    forward, backward = [0] * len(segments), [0] * len(segments)
    for index in order:
        for target in segments[index].sends:
            level = forward[index] + (segments[target].device != segments[index].device)
            forward[target] = max(forward[target], level)
            waits[target] -= 1
            if not waits[target]:
                order.append(target)
    for index in reversed(order):
        for target in segments[index].sends:
            level = backward[target] + (segments[target].device != segments[index].device)
            backward[index] = max(backward[index], level)
    return Levels(forward, backward, order)


_FORWARD, _INPUTS, _WEIGHTS = range(3)


def _play_by_turns(segments: Sequence[Segment], microbatches: int, link: Link) -> list[Busy]:
    known = levels(segments)
    turns = known.turns
    sources: list[list[tuple[int, float]]] = [[] for _ in segments]
    for index, segment in enumerate(segments):
        for target, size in segment.sends.items():
            sources[target].append((index, size))
    passes = []
    for place, index in enumerate(known.order):
        for microbatch in range(microbatches):
            passes.append((turns.forward(microbatch, known.forward[index]), _FORWARD, microbatch, place, index))
            back = known.backward[index]
            if sources[index]:
                passes.append((turns.inputs(microbatch, back), _INPUTS, microbatch, -place, index))
            passes.append((turns.weights(microbatch, back), _WEIGHTS, microbatch, -place, index))
    ready: dict[tuple[int, int, int], float] = {}
    """The time at which the inputs of a pass are ready, keyed by kind of pass, microbatch and segment."""
    device_free: dict[int, float] = {}
    link_free: dict[tuple[int, int], float] = {}
    found = []
    for _, kind, microbatch, _, index in sorted(passes):
        segment = segments[index]
        duration = segment.forward_s
        if kind != _FORWARD:
            awaited_s = segment.inputs_s if sources[index] else 0.0
            duration = awaited_s if kind == _INPUTS else segment.backward_s - awaited_s
        begin = max(device_free.get(segment.device, 0.0), ready.get((kind, microbatch, index), 0.0))
        device_free[segment.device] = end = begin + duration
        found.append(Busy(segment.device, microbatch, FORWARD if kind == _FORWARD else BACKWARD, begin, duration))
        others = {_FORWARD: segment.sends.items(), _INPUTS: sources[index], _WEIGHTS: ()}[kind]
        for other, size in others:
            there, target = end, segments[other].device
            if target != segment.device:
                way = segment.device, target
                link_free[way] = max(end, link_free.get(way, 0.0)) + size / link.bytes_per_s
                there = link_free[way] + link.latency_s
            for needing in (_FORWARD,) if kind == _FORWARD else (_INPUTS, _WEIGHTS):
                needed = needing, microbatch, other
                ready[needed] = max(there, ready.get(needed, 0.0))
    return sorted(found, key=lambda busy: busy.start_s)


# -- fill and drain ------------------------------------------------------------------------------------------------


_ENDED, _SENDS_BACK, _COULD_BEGIN = range(3)
"""Kinds of events of a task. Of simultaneous events, ends are handled first."""


class _Play:
    """Simulates fill and drain.

    A task is one pass of one microbatch through one segment. Of the tasks that could run, the one with the lowest
    number runs first.
    """

    def __init__(self, segments: Sequence[Segment], microbatches: int, link: Link) -> None:
        self._segments = segments
        self._microbatches = microbatches
        self._link = link
        count = len(segments)
        self._passes = microbatches * count
        self._followers: list[list[tuple[int, float]]] = [list(segment.sends.items()) for segment in segments]
        self._sources: list[list[tuple[int, float]]] = [[] for _ in segments]
        for index, segment in enumerate(segments):
            for target, size in segment.sends.items():
                self._sources[target].append((index, size))
        self._waits = [
            len(self._sources[index]) + (microbatch > 0) for microbatch in range(microbatches) for index in range(count)
        ] + [len(self._followers[index]) + 1 for _ in range(microbatches) for index in range(count)]
        self._forward_left = Counter(segment.device for segment in segments for _ in range(microbatches))
        self._ready_at = [0.0] * (2 * self._passes)
        self._link_free: dict[tuple[int, int], float] = {}
        self._events: list[tuple[float, int, int]] = []
        """(time, kind of event, number of the task)."""
        self._of_device: dict[int, list[int]] = {}
        for index, segment in enumerate(segments):
            self._of_device.setdefault(segment.device, []).append(index)
        self._could_run: dict[int, list[int]] = {device: [] for device in self._of_device}
        self._idle = set(self._of_device)
        self._found: list[Busy] = []

    def run(self) -> list[Busy]:
        count = len(self._segments)
        for index in range(count):
            if not self._waits[index]:
                self._events.append((0.0, _COULD_BEGIN, index))
        heapq.heapify(self._events)
        while self._events:
            now, what, task = heapq.heappop(self._events)
            device = self._segments[task % count].device
            if what == _COULD_BEGIN:
                heapq.heappush(self._could_run[device], task)
            elif what == _SENDS_BACK:
                self._send(task, self._sources[task % count], now, elsewhere=True)
            else:
                self._idle.add(device)
                self._ended(task, now)
            if device in self._idle and self._could_run[device]:
                self._begin(heapq.heappop(self._could_run[device]), device, now)
        return self._found

    def _begin(self, task: int, device: int, now: float) -> None:
        segment = self._segments[task % len(self._segments)]
        backward = task >= self._passes
        duration = segment.backward_s if backward else segment.forward_s
        microbatch = task % self._passes // len(self._segments)
        self._found.append(Busy(device, microbatch, BACKWARD if backward else FORWARD, now, duration))
        self._idle.discard(device)
        heapq.heappush(self._events, (now + duration, _ENDED, task))
        if backward:
            heapq.heappush(self._events, (now + segment.inputs_s, _SENDS_BACK, task))

    def _ended(self, task: int, now: float) -> None:
        count = len(self._segments)
        index = task % count
        device = self._segments[index].device
        backward = task >= self._passes
        if backward:
            self._send(task, self._sources[index], now, elsewhere=False)
        else:
            self._send(task, self._followers[index], now, elsewhere=True)
            self._send(task, self._followers[index], now, elsewhere=False)
        if task // count % self._microbatches < self._microbatches - 1:
            self._met(task + count, now)
        if not backward:
            self._forward_left[device] -= 1
            if not self._forward_left[device]:
                for mine in self._of_device[device]:
                    self._met(self._passes + mine, now)

    def _send(self, task: int, others: Sequence[tuple[int, float]], now: float, elsewhere: bool) -> None:
        """Send a task's results to ``others`` (segment, bytes): either those on other devices or those on its own."""
        index = task % len(self._segments)
        device = self._segments[index].device
        for other, size in others:
            target = self._segments[other].device
            if (target != device) == elsewhere:
                self._met(task - index + other, self._sent(device, target, size, now) if elsewhere else now)

    def _sent(self, source: int, target: int, size: float, now: float) -> float:
        """Send ``size`` bytes from one device to another, and return their arrival time."""
        begin = max(now, self._link_free.get((source, target), 0.0))
        end = begin + size / self._link.bytes_per_s
        self._link_free[source, target] = end
        return end + self._link.latency_s

    def _met(self, task: int, when: float) -> None:
        """Record the time at which one of the conditions for a task to begin was met."""
        self._ready_at[task] = max(self._ready_at[task], when)
        self._waits[task] -= 1
        if not self._waits[task]:
            heapq.heappush(self._events, (self._ready_at[task], _COULD_BEGIN, task))
