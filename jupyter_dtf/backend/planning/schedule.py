"""A step of a pipeline, played through: which device is busy when. Pure.

Fill and drain: every segment of layers runs the forward passes of its microbatches in their order, and when all of its
device's have ended, the backward passes in the same order; then the device updates its weights. A device does one thing
at a time; of what it could do, a forward pass first, and of the earliest microbatch. What is sent from one device to
another goes there one after the other, while both compute. A backward pass computes what other devices wait for, the
derivatives of what they have given, before those of its own weights.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...schema.placement import Link

FORWARD, BACKWARD, UPDATE = ("forward", "backward", "update")


@dataclass
class Segment:
    """Layers of one device that run together. Seconds are those of one microbatch."""

    device: int
    forward_s: float = 0.0
    backward_s: float = 0.0
    inputs_s: float = 0.0
    """The part of ``backward_s`` after which the derivatives of what it was given are there."""
    sends: dict[int, float] = field(default_factory=dict)
    """Bytes of a microbatch by the segment that needs them, forward; the backward pass sends as many the other way."""


@dataclass(frozen=True)
class Busy:
    """A device at work."""

    device: int
    microbatch: int
    phase: str
    start_s: float
    duration_s: float


def play(segments: Sequence[Segment], updates_s: Mapping[int, float], microbatches: int, link: Link) -> list[Busy]:
    """All that the devices do in a step, in the order in which it begins. ``updates_s``: by device, after its passes.

    What a segment sends goes to segments that do not lead back to it.
    """
    return _Play(segments, updates_s, microbatches, link).run()


_ENDED, _SENDS_BACK, _COULD_BEGIN = range(3)
"""What happens to a task. At one time, what ends comes first."""


class _Play:
    """A task is one pass of one microbatch through one segment; its number is its rank among those that could run."""

    def __init__(
        self, segments: Sequence[Segment], updates_s: Mapping[int, float], microbatches: int, link: Link
    ) -> None:
        self._segments = segments
        self._updates_s = updates_s
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
        """(time, what happens, the number of the task)."""
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
        return self._found + self._updates()

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
        """Hand on what a task has made: (segment, bytes) to other devices, or to other segments of its own."""
        index = task % len(self._segments)
        device = self._segments[index].device
        for other, size in others:
            target = self._segments[other].device
            if (target != device) == elsewhere:
                self._met(task - index + other, self._sent(device, target, size, now) if elsewhere else now)

    def _sent(self, source: int, target: int, size: float, now: float) -> float:
        """When it is there."""
        begin = max(now, self._link_free.get((source, target), 0.0))
        end = begin + size / self._link.bytes_per_s
        self._link_free[source, target] = end
        return end + self._link.latency_s

    def _met(self, task: int, when: float) -> None:
        """One of the things that a task waits for is there."""
        self._ready_at[task] = max(self._ready_at[task], when)
        self._waits[task] -= 1
        if not self._waits[task]:
            heapq.heappush(self._events, (self._ready_at[task], _COULD_BEGIN, task))

    def _updates(self) -> list[Busy]:
        ends = {busy.device: busy.start_s + busy.duration_s for busy in self._found}
        return [
            Busy(device, self._microbatches - 1, UPDATE, ends.get(device, 0.0), duration)
            for device, duration in sorted(self._updates_s.items())
            if duration
        ]
