"""Attribution of a traced pipeline step's time to layers and phases. Pure.

The names of operations (``fit/pipeline/step.py``) contain both: ``forward/2/encoder/dense_1/...`` is layer
``encoder/dense_1`` on the third microbatch, and ``backward/2/.../forward/2/encoder/dense_1/...`` is its backward pass.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence

from ....schema.graph import LayerGraph
from ....schema.trace import TracedOp

FORWARD, BACKWARD, UPDATE, REST = "forward", "backward", "update", "rest"
Key = tuple[str, str, int]
"""Layer (may be empty), phase, microbatch."""

_PHASE = re.compile(r"(?:^|[/_])(?P<phase>forward|backward|update)/(?:(?P<microbatch>\d+)/)?(?P<rest>.*)$")
_DERIVED = re.compile(r"(?:^|/)forward/\d+/(?P<rest>.*)$")


def wall_times(ops: Sequence[TracedOp]) -> list[float]:
    """Return the wall-clock seconds that each operation accounts for, which add up to the duration of the step.

    Time in which several operations run is divided equally among them. Time in which none runs is attributed to the
    operation that begins next.
    """
    edges = sorted(
        [(op.start_us, 1, index) for index, op in enumerate(ops)]
        + [(op.start_us + op.duration_us, 0, index) for index, op in enumerate(ops) if op.duration_us]
    )
    found = [0.0] * len(ops)
    begun: dict[int, float] = {}
    shared = 0.0  # the time that an operation running since the beginning would account for so far
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
    """Return the seconds spent, keyed by layer, phase and microbatch.

    ``scopes`` maps name scopes within ``forward/2/`` to layers.
    """
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
    """Return the layer of the innermost enclosing scope, or an empty string if there is none."""
    path = name
    while path := path.rpartition("/")[0]:
        if path in scopes:
            return scopes[path]
    return ""


def shared_out(
    graph: LayerGraph, traced: Sequence[Mapping[Key, float]], step_s: float, microbatches: int
) -> tuple[dict[str, list[float]], float]:
    """Distribute the time of a step over layers.

    The proportions are medians over traced steps and microbatches, scaled to the duration of an untraced step. Time
    between layers is distributed among them: in a forward pass in proportion to their times, otherwise in proportion to
    the sizes of their gradients.

    Args:
        graph: The layers.
        traced: The attributed times of each traced step.
        step_s: The duration in seconds of a step that is not traced.
        microbatches: The number of microbatches per step.

    Returns:
        A pair: the seconds of each layer's forward pass, backward pass and update, keyed by the layer's id; and the
        remaining seconds of a step.
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
