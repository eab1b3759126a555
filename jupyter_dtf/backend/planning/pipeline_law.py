"""Simulates pipelines on equal devices, with stages that take about the same time, with and without replicas. Pure.

``place_layers.place`` finds better placements, but takes longer. A step is simulated by ``schedule.play``, as in a
prediction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...schema.graph import LayerGraph
from ...schema.one_f_one_b import Turns
from ...schema.placement import Link, Placement
from .costs import Floats, ordered
from .networks import Fabric
from .placed_layers import OF_INPUTS
from .prediction import copying_s
from .schedule import UPDATE, Segment, play
from .workload import Workload

_MOST_PLAYED = 2_000
"""The maximum number of passes that are simulated one by one. Above this number, the time of a step is estimated as the
time of all stages for the first microbatch, plus the time of the slowest stage for each further microbatch."""


@dataclass(frozen=True)
class PipelineStep:
    """One step of a pipeline."""

    step_s: float
    compute_s: float
    """Seconds for which a device computes, averaged over the stages of a replica."""
    exposed_s: float
    """Seconds of the exchange with other replicas that does not overlap with computation, on the slowest device."""
    update_s: float
    """Seconds of the weight update, on the slowest device."""
    sent_bytes: float
    memory_bytes: float
    """The memory needed by the device that needs the most."""


class Layered:
    """The figures of a model that do not depend on how it is cut into stages."""

    def __init__(self, graph: LayerGraph, work: Workload) -> None:
        self.work = work
        self.layers = ordered(graph)
        of_weights = np.array([bool(layer.gradient_bytes) for layer in self.layers], bool)
        self.inputs_s = np.where(of_weights, OF_INPUTS, 1.0) * work.backward_s
        kept = ("parameter_bytes", "gradient_bytes", "slot_bytes", "activation_bytes")
        self.bytes = [np.array([getattr(layer, name) for layer in self.layers], float) for name in kept]
        self.touched = np.where(of_weights, sum(self.bytes[:3]), 0.0)
        self.together_s = np.cumsum(work.forward_s + work.backward_s)
        position = {layer.id: index for index, layer in enumerate(self.layers)}
        found = [(position[edge.source], position[edge.target], edge.bytes) for edge in graph.edges]
        self.edges = np.array(found, np.int64).reshape(-1, 3)
        self.takes_turns = graph.takes_turns


class Staged:
    """A model cut into stages. All its costs are linear in the number of examples, so it is cut only once."""

    def __init__(self, layered: Layered, stages: int, microbatches: int) -> None:
        work = layered.work
        self.microbatches = microbatches
        self._layered, self._work = layered, work
        self.stage_of = _even(layered.together_s, min(stages, len(layered.layers)))
        self.stages = int(self.stage_of.max(initial=0)) + 1
        self._forward_s, self._backward_s = (self._by_stage(each) for each in (work.forward_s, work.backward_s))
        self._inputs_s = self._by_stage(layered.inputs_s)
        self._start_s = self._by_stage(work.start_s) / 2
        weights, gradients, slots, self._activations = (self._by_stage(each) for each in layered.bytes)
        self._kept, self._exchanged = weights + gradients + slots, weights + gradients
        self._update_s = work.update_s * self._by_stage(layered.touched) / max(float(layered.touched.sum()), 1.0)
        self._sends = self._sent()

    def _by_stage(self, of_layers: Floats) -> Floats:
        sums: Floats = np.bincount(self.stage_of, of_layers, self.stages).astype(np.float64)
        return sums

    def _sent(self) -> list[dict[int, float]]:
        """Return the bytes per example that each stage sends to each other stage.

        An output that several layers of a stage need is sent to the stage only once.
        """
        sources, targets, sizes = self._layered.edges.T
        crosses = self.stage_of[sources] != self.stage_of[targets]
        messages: dict[tuple[int, int], float] = {}
        for source, target, size in zip(
            sources[crosses].tolist(), self.stage_of[targets[crosses]].tolist(), sizes[crosses].tolist(), strict=True
        ):
            messages[source, target] = max(float(size), messages.get((source, target), 0.0))
        sends: list[dict[int, float]] = [{} for _ in range(self.stages)]
        for (source, target), size in messages.items():
            own = sends[int(self.stage_of[source])]
            own[target] = own.get(target, 0.0) + size
        return sends

    @property
    def placement(self) -> Placement:
        """The placement of each stage on the task with the same number."""
        kind = "GPU" if self._work.overlaps else "CPU"
        return Placement(
            devices={
                layer.id: f"/job:worker/task:{stage}/device:{kind}:0"
                for layer, stage in zip(self._layered.layers, self.stage_of.tolist(), strict=True)
            }
        )

    def step(self, examples: float, replicas: int, fabric: Fabric, slower: float = 1.0) -> PipelineStep:
        """Simulate a step of ``examples`` examples per replica, on devices that take ``slower`` times as long."""
        each = examples / self.microbatches
        within = self.stages * replicas <= fabric.per_machine or self.stages <= fabric.per_machine
        link = fabric.within if within else fabric.between
        between = fabric.within if self.stages * replicas <= fabric.per_machine else fabric.between
        exchanges = np.zeros(self.stages)
        if replicas > 1:
            exchanges = (replicas - 1) * self._exchanged / between.bytes_per_s + 2 * between.latency_s
        updates = dict(enumerate((self._update_s * slower + exchanges).tolist()))
        copying = 0.0 if self._work.overlaps else copying_s(link)
        end, computing = self._played(self._segments(each, slower, copying), updates, link)
        overhead = self._work.overhead_s * slower
        given = max((sum(own.values()) for own in self._sends), default=0.0)
        return PipelineStep(
            step_s=end + overhead,
            compute_s=computing + overhead,
            exposed_s=float(exchanges.max(initial=0.0)),
            update_s=float(self._update_s.max(initial=0.0)) * slower,
            sent_bytes=2 * given * examples,
            memory_bytes=float((self._kept + self._activations * examples * self._held()).max(initial=0.0)),
        )

    def _held(self) -> Floats:
        """Return the fraction of the microbatches whose activations each stage holds at the same time."""
        levels = self.stages - 1
        turns = Turns(levels, levels)
        held = [turns.held(stage, levels - stage) for stage in range(self.stages)]
        limited: Floats = np.minimum(np.array(held, float) / self.microbatches, 1.0)
        return limited if self._layered.takes_turns else np.ones(self.stages)

    def _played(self, segments: list[Segment], updates: dict[int, float], link: Link) -> tuple[float, float]:
        """Return the seconds of a step, and the mean seconds for which a device computes."""
        if len(segments) * self.microbatches <= _MOST_PLAYED:
            busy = play(segments, updates, self.microbatches, link, takes_turns=self._layered.takes_turns)
            end = max((one.start_s + one.duration_s for one in busy), default=0.0)
            return end, sum(one.duration_s for one in busy if one.phase != UPDATE) / self.stages
        work = [segment.forward_s + segment.backward_s for segment in segments]
        sent = [sum(segment.sends.values()) / link.bytes_per_s + link.latency_s for segment in segments]
        first = sum(work) + 2 * sum(sent)
        end = first + (self.microbatches - 1) * max(work) + max(updates.values(), default=0.0)
        return end, sum(work) * self.microbatches / self.stages

    def _segments(self, examples: float, slower: float, copying: float) -> list[Segment]:
        """Return a segment for each stage, with microbatches of ``examples``. ``copying``: CPU seconds per byte."""
        moved = [0.0] * self.stages
        for stage, own in enumerate(self._sends):
            for target, size in own.items():
                moved[stage] += size * examples * copying
                moved[target] += size * examples * copying
        more = self._start_s * slower + np.array(moved)
        each = examples * slower
        return [
            Segment(stage, *seconds, {target: size * examples for target, size in self._sends[stage].items()})
            for stage, seconds in enumerate(
                zip(
                    (self._forward_s * each + more).tolist(),
                    (self._backward_s * each + more).tolist(),
                    (self._inputs_s * each + more).tolist(),
                    strict=True,
                )
            )
        ]


def _even(together: Floats, stages: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the stage of each layer: contiguous, nonempty stages, the slowest of which is as fast as possible.

    ``together``: the cumulative seconds of the layers.
    """
    count = together.size
    total = float(together[-1]) if count else 0.0
    if not total:
        return np.arange(count) * stages // max(count, 1)
    low, high = max(total / stages, float(np.diff(together, prepend=0.0).max())), total
    for _ in range(30):
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
    """Return the number of stages needed if none may take longer than ``limit``."""
    stages, first, count = 0, 0, together.size
    while first < count:
        before = float(together[first - 1]) if first else 0.0
        first = max(first + 1, int(np.searchsorted(together, before + limit * (1 + 1e-12), side="right")))
        stages += 1
    return stages
