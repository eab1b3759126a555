"""Pipelines of equal devices, with and without replicas: stages that are as equal as cuts allow, played through. Pure.

``place_layers.place`` finds better placements, and takes longer. The step is ``schedule.play``'s, as in a prediction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...schema.graph import LayerGraph
from ...schema.placement import Device, Link, Placement
from .costs import Costs, Floats, costs, ordered
from .networks import Fabric
from .prediction import copying_s
from .schedule import UPDATE, Segment, play
from .spread import Spread
from .workload import Workload

_MOST_PLAYED = 20_000
"""Passes of microbatches through segments that are played through one by one. Of more, the first microbatch goes
through all stages, and the slowest stage is waited for by each one more."""


@dataclass(frozen=True)
class PipelineStep:
    """A step of one device, the mean over the stages of a replica."""

    step_s: float
    compute_s: float
    exposed_s: float
    """Of the exchange with other replicas, by the device that takes longest."""
    update_s: float
    sent_bytes: float
    memory_bytes: float
    """Of the fullest device."""


class Staged:
    """A model in so many stages. What is asked of it is linear in the examples, so it is cut once."""

    def __init__(self, graph: LayerGraph, work: Workload, stages: int, microbatches: int) -> None:
        self.microbatches = microbatches
        self._work = work
        layers = ordered(graph)
        seconds = work.forward_s + work.backward_s
        self.stage_of = _even(seconds, min(stages, len(layers)))
        self.stages = int(self.stage_of.max(initial=0)) + 1
        kind = "GPU" if work.overlaps else "CPU"
        devices = [
            Device(name=f"/job:worker/task:{number}/device:{kind}:0", flops_per_s=1.0) for number in range(self.stages)
        ]
        names = [device.name for device in devices]
        placed = {layer.id: names[stage] for layer, stage in zip(layers, self.stage_of.tolist(), strict=True)}
        self.placement = Placement(devices=placed)
        every = costs(graph, microbatches, microbatches)
        self._spread = Spread(_in_seconds(every, work), self.placement, devices)
        self._segments = self._spread.segments()
        started = np.bincount(self.stage_of, work.start_s, self.stages)
        updated = np.bincount(self.stage_of, [_touched(layer) for layer in layers], self.stages)
        self._start_s = started / 2
        self._update_s = work.update_s * updated / max(float(updated.sum()), 1.0)
        self._kept = np.bincount(
            self.stage_of,
            [layer.parameter_bytes + layer.gradient_bytes + layer.slot_bytes for layer in layers],
            self.stages,
        )
        self._activations = np.bincount(self.stage_of, [layer.activation_bytes for layer in layers], self.stages)

    def step(self, examples: float, replicas: int, fabric: Fabric) -> PipelineStep:
        """Of ``examples`` examples of one replica."""
        each = examples / self.microbatches
        within = self.stages * replicas <= fabric.per_machine or self.stages <= fabric.per_machine
        link = fabric.within if within else fabric.between
        copies = 0.0 if self._work.overlaps else copying_s(link)
        segments = [self._segment(segment, each, copies) for segment in self._segments]
        between = fabric.within if self.stages * replicas <= fabric.per_machine else fabric.between
        exchanges = [self._spread.exchange_s(device, replicas, between) for device in self._spread.used]
        updates = {
            device: float(self._update_s[device]) + exchange
            for device, exchange in zip(self._spread.used, exchanges, strict=True)
        }
        end, computing = self._played(segments, updates, link)
        given, _ = self._spread.traffic()
        return PipelineStep(
            step_s=end + self._work.overhead_s,
            compute_s=computing + self._work.overhead_s,
            exposed_s=max(exchanges, default=0.0),
            update_s=float(self._update_s.max(initial=0.0)),
            sent_bytes=2 * max(given, default=0.0) * examples,
            memory_bytes=float((self._kept + self._activations * examples).max(initial=0.0)),
        )

    def _played(self, segments: list[Segment], updates: dict[int, float], link: Link) -> tuple[float, float]:
        """Seconds of a step, and those in which a device computes, the mean over them."""
        if len(segments) * self.microbatches <= _MOST_PLAYED:
            busy = play(segments, updates, self.microbatches, link)
            end = max((one.start_s + one.duration_s for one in busy), default=0.0)
            return end, sum(one.duration_s for one in busy if one.phase != UPDATE) / self.stages
        work = [segment.forward_s + segment.backward_s for segment in segments]
        sent = [sum(segment.sends.values()) / link.bytes_per_s + link.latency_s for segment in segments]
        first = sum(work) + 2 * sum(sent)
        end = first + (self.microbatches - 1) * max(work) + max(updates.values(), default=0.0)
        return end, sum(work) * self.microbatches / self.stages

    def _segment(self, segment: Segment, examples: float, copying: float) -> Segment:
        """Of a microbatch of so many examples; the segment is that of one."""
        start = float(self._start_s[segment.device])
        moved = sum(segment.sends.values()) * copying
        return Segment(
            segment.device,
            segment.forward_s * examples + start + moved * examples,
            segment.backward_s * examples + start + moved * examples,
            segment.inputs_s * examples + start,
            {target: size * examples for target, size in segment.sends.items()},
        )


def _in_seconds(every: Costs, work: Workload) -> Costs:
    """The passes of one example in seconds of a device that does one operation in each."""
    return replace(every, forward=work.forward_s, backward=work.backward_s, update=np.zeros(len(every.layers)))


def _even(seconds: Floats, stages: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The stage of each layer: contiguous, no stage empty, the slowest as fast as cuts by even shares make it."""
    count = seconds.size
    together = np.cumsum(seconds)
    total = float(together[-1]) if count else 0.0
    if not total:
        return np.arange(count) * stages // max(count, 1)
    low, high = max(total / stages, float(seconds.max())), total
    for _ in range(40):
        middle = (low + high) / 2
        if _needed(together, middle) <= stages:
            high = middle
        else:
            low = middle
    firsts, first = [0], 0
    for number in range(1, stages):
        before = float(together[first - 1]) if first else 0.0
        last = int(np.searchsorted(together, before + high * (1 + 1e-12), side="right"))
        first = min(max(last, first + 1), count - (stages - number))
        firsts.append(first)
    found = np.zeros(count, np.int64)
    found[firsts[1:]] = 1
    return np.cumsum(found)


def _needed(together: Floats, limit: float) -> int:
    """How many stages it takes, none of which is longer than ``limit``."""
    stages, first, count = 0, 0, together.size
    while first < count:
        before = float(together[first - 1]) if first else 0.0
        first = max(first + 1, int(np.searchsorted(together, before + limit * (1 + 1e-12), side="right")))
        stages += 1
    return stages


def _touched(layer: object) -> float:
    bytes_: float = layer.parameter_bytes + layer.gradient_bytes + layer.slot_bytes  # type: ignore[attr-defined]
    return bytes_
