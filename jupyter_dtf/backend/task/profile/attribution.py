"""Whose time it was: the operations of a traced step of a pipeline, by layer and phase. Pure.

The names of operations say what they are (``fit/pipeline/step.py``): ``forward/2/encoder/dense_1/...`` is what layer
``encoder/dense_1`` does with the third microbatch, ``backward/2/.../forward/2/encoder/dense_1/...`` is derived from it.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence

from ....schema.graph import LayerGraph
from ....schema.trace import TracedOp

FORWARD, BACKWARD, UPDATE, REST = "forward", "backward", "update", "rest"
Key = tuple[str, str, int]
"""Layer (empty: none), phase, microbatch."""

_PHASE = re.compile(r"(?:^|[/_])(?P<phase>forward|backward|update)/(?:(?P<microbatch>\d+)/)?(?P<rest>.*)$")
_DERIVED = re.compile(r"(?:^|/)forward/\d+/(?P<rest>.*)$")


def wall_times(ops: Sequence[TracedOp]) -> list[float]:
    """The seconds of the step that each operation accounts for; their sum is the step from its first to its last.

    While several run, each accounts for an equal part. While none runs, the one that begins next is being prepared.
    """
    edges = sorted(
        [(op.start_us, 1, index) for index, op in enumerate(ops)]
        + [(op.start_us + op.duration_us, 0, index) for index, op in enumerate(ops) if op.duration_us]
    )
    found = [0.0] * len(ops)
    begun: dict[int, float] = {}
    shared = 0.0  # of the time so far, what one that had run all along would account for
    now = edges[0][0] if edges else 0.0
    for time, begins, index in edges:
        if begun:
            shared += (time - now) / len(begun)
        elif begins:
            found[index] += time - now
        now = time
        if begins and ops[index].duration_us:
            begun[index] = shared
        elif not begins:
            found[index] += shared - begun.pop(index)
    return [seconds / 1e6 for seconds in found]


def attribute(ops: Sequence[TracedOp], scopes: Mapping[str, str]) -> dict[Key, float]:
    """Seconds by layer, phase and microbatch. ``scopes``: the layer of each name scope within ``forward/2/``."""
    found: dict[Key, float] = {}
    for op, seconds in zip(ops, wall_times(ops), strict=True):
        key = _key(op.op, scopes)
        found[key] = found.get(key, 0.0) + seconds
    return found


def _key(name: str, scopes: Mapping[str, str]) -> Key:
    match = _PHASE.search(name)
    if match is None:
        return "", REST, 0
    phase, rest = match["phase"], match["rest"]
    if phase == BACKWARD:
        derived = _DERIVED.search(rest)
        rest = derived["rest"] if derived else ""
    return "" if phase == UPDATE else _layer(rest, scopes), phase, int(match["microbatch"] or 0)


def _layer(name: str, scopes: Mapping[str, str]) -> str:
    """The layer in whose scope it is; of those the innermost."""
    path = name
    while path := path.rpartition("/")[0]:
        if path in scopes:
            return scopes[path]
    return ""


def shared_out(
    graph: LayerGraph, traced: Sequence[Mapping[Key, float]], step_s: float, microbatches: int
) -> tuple[dict[str, list[float]], float]:
    """Seconds of forward pass, backward pass and update by layer, and of a step beside. ``step_s``: of one not traced.

    How the step is divided is told by medians over traced steps and microbatches; together they are the step. What is
    between layers is shared out among them: in a forward pass by their seconds, else by the bytes of their gradients.
    """
    passes = {
        (layer.id, phase): statistics.median(
            step.get((layer.id, phase, number), 0.0) for step in traced for number in range(microbatches)
        )
        for layer in graph.layers
        for phase in (FORWARD, BACKWARD)
    }
    between = {
        phase: statistics.median(
            sum(step.get(("", phase, number), 0.0) for number in range(microbatches)) for step in traced
        )
        for phase in (FORWARD, BACKWARD, UPDATE, REST)
    }
    gradients = max(sum(layer.gradient_bytes for layer in graph.layers), 1)
    forward = max(sum(passes[layer.id, FORWARD] for layer in graph.layers), 1e-12)
    found = {}
    for layer in graph.layers:
        part = layer.gradient_bytes / gradients
        found[layer.id] = [
            passes[layer.id, FORWARD] * (1 + between[FORWARD] / microbatches / forward),
            passes[layer.id, BACKWARD] + between[BACKWARD] / microbatches * part,
            between[UPDATE] * part,
        ]
    in_layers = sum((ahead + back) * microbatches + update for ahead, back, update in found.values())
    whole = statistics.median(sum(step.values()) for step in traced)
    rest = between[REST] * min(1.0, step_s / whole) + max(step_s - whole, 0.0)
    scale = (step_s - rest) / in_layers
    return {layer: [scale * each for each in seconds] for layer, seconds in found.items()}, rest
