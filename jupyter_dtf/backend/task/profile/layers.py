"""What the layers of a model take on this task's own device, in steps like those of a pipeline."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ....schema.graph import LayerGraph
from ..describe import describe, example
from ..fit.pipeline.engine import Engine
from ..fit.pipeline.forward import scope_name
from ..fit.pipeline.places import Places
from ..trace.session import full_trace
from ..trace.step_stats import rows
from . import ProfileJob
from .attribution import BACKWARD, FORWARD, UPDATE, Key, attribute

_WARM, _TIMED, _TRACED = 3, 9, 5
"""Steps."""


def layer_seconds(model: Any, job: ProfileJob, device: str, ctx: Any) -> tuple[dict[str, list[float]], float]:
    """Forward and backward seconds of a microbatch and seconds of an update, by layer; seconds of a step beside.

    The model is trained on the device for some steps, on random numbers and with a plain loss.
    """
    x, y = _batch(model, job.input_shapes, job.batch_size)
    graph = describe(model, job.input_shapes)
    optimizer = model.optimizer
    model.compile(optimizer=optimizer, loss="mse")
    optimizer.build(model.trainable_variables)
    spec = keras.tree.map_structure(lambda t: tf.TensorSpec([None, *t.shape[1:]], t.dtype), (x, y))
    scopes = {scope_name(layer.id): layer.id for layer in graph.layers}
    places = Places({layer.id: device for layer in graph.layers}, {})
    steps, traced = [], []
    with closing(Engine(model, places, job.microbatches, ctx)) as engine:
        engine.load()
        for _ in range(_WARM + _TIMED):
            begin = time.perf_counter()
            engine.train((x, y), spec)
            steps.append(time.perf_counter() - begin)
        for number in range(_TRACED):
            metadata = tf.compat.v1.RunMetadata()
            engine.train((x, y), spec, options=full_trace(), run_metadata=metadata)
            traced.append(attribute(rows(metadata, number).ops, scopes))
    return shared_out(graph, traced, statistics.median(steps[_WARM:]), job.microbatches)


def _batch(model: Any, input_shapes: Any, count: int) -> tuple[Any, Any]:
    """Inputs, zeros where they are whole numbers, and as many zeros as the model puts out."""
    rng = np.random.default_rng(0)
    specs, _ = example(model, input_shapes)

    def one(spec: Any) -> tf.Tensor:
        shape = [count, *spec.shape[1:]]
        return tf.cast(rng.normal(size=shape) if spec.dtype.is_floating else np.zeros(shape), spec.dtype)

    x = keras.tree.map_structure(one, specs)
    outputs = keras.tree.map_structure(lambda leaf: leaf[:1], x)
    y = keras.tree.map_structure(lambda leaf: tf.zeros([count, *leaf.shape[1:]], leaf.dtype), model(outputs))
    return x, y


def shared_out(
    graph: LayerGraph, traced: Sequence[dict[Key, float]], step_s: float, microbatches: int
) -> tuple[dict[str, list[float]], float]:
    """What ``layer_seconds`` returns, of traced steps and of what a step takes that is not traced.

    A layer's seconds are the median over steps and microbatches. What is between layers is shared out among them in
    proportion: in a pass by their seconds, sums of gradients and the update by the bytes of gradients.
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
        for phase in (FORWARD, BACKWARD, UPDATE)
    }
    whole = statistics.median(sum(step.values()) for step in traced)
    scale = min(1.0, step_s / whole) if whole else 1.0
    gradients = max(sum(layer.gradient_bytes for layer in graph.layers), 1)
    forward = max(sum(passes[layer.id, FORWARD] for layer in graph.layers), 1e-12)
    found = {}
    for layer in graph.layers:
        part = layer.gradient_bytes / gradients
        seconds = [
            passes[layer.id, FORWARD] * (1 + between[FORWARD] / microbatches / forward),
            passes[layer.id, BACKWARD] + between[BACKWARD] / microbatches * part,
            between[UPDATE] * part,
        ]
        found[layer.id] = [each * scale for each in seconds]
    in_layers = sum((ahead + back) * microbatches + update for ahead, back, update in found.values())
    return found, max(step_s - in_layers, 0.0)
