"""Measures the time of a model's layers on this task's own device, in steps like those of a pipeline."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ....schema.placement import Placement
from ..describe.layer_graph import describe, example
from ..fit.pipeline.engine import Engine
from ..fit.pipeline.forward import scope_name
from ..fit.pipeline.layer_devices import Places
from ..model import keras_io
from ..trace.session_trace import full_trace
from ..trace.step_stats import rows
from . import ProfileJob
from .attribution import Key, attribute, shared_out

_WARM, _TIMED, _TRACED = 3, 12, 8
"""The numbers of warm-up steps, timed steps and traced steps. More steps are timed if they are short; only the faster
half of the traced steps is used.
"""
_TIMED_S = 2.0


def layer_seconds(model: Any, job: ProfileJob, device: str, ctx: Any) -> tuple[dict[str, list[float]], float]:
    """Return a pair: the seconds of each layer's forward pass, backward pass and update, keyed by the layer's id; and
    the remaining seconds of a step.

    The model is trained on the device for some steps, with random data and a simple loss.
    """
    x, y = _batch(model, job.input_shapes, job.batch_size)
    graph = describe(model, job.input_shapes)
    optimizer = model.optimizer
    model.compile(optimizer=optimizer, loss="mse")
    spec = keras.tree.map_structure(lambda t: tf.TensorSpec([None, *t.shape[1:]], t.dtype), (x, y))
    keras_io.build(model, keras_io.batch_spec(spec))
    scopes = {scope_name(layer.id): layer.id for layer in graph.layers}
    places = Places(Placement(devices={layer.id: device for layer in graph.layers}))
    steps: list[float] = []
    traced: list[dict[Key, float]] = []
    with closing(Engine(model, places, job.microbatches, ctx)) as engine:
        engine.load()
        for _ in range(_WARM):
            engine.train((x, y), spec)
        while len(steps) < _TIMED or sum(steps) < _TIMED_S:
            begin = time.perf_counter()
            engine.train((x, y), spec)
            steps.append(time.perf_counter() - begin)
        for number in range(_TRACED):
            metadata = accepted(lambda: _traced(engine, (x, y), spec))
            traced.append(attribute(rows(metadata, number).ops, scopes))
    # Other processes on the machine only make steps longer, never shorter.
    traced.sort(key=lambda step: sum(step.values()))
    return shared_out(graph, traced[: _TRACED // 2], statistics.quantiles(steps, n=4)[0], job.microbatches)


def accepted(step: Callable[[], Any]) -> Any:
    """Run a step, and retry if TensorFlow mistakes it for a duplicate request.

    This was observed once, for a traced step within one process: "The same RunGraph (Worker) request was received
    twice". No part of such a step has run, and an additional step would not affect a measurement anyway.
    """
    try:
        return step()
    except tf.errors.AbortedError as error:
        if "received twice" not in error.message:
            raise
        return step()


def _traced(engine: Engine, batch: Any, spec: Any) -> Any:
    """Run a step with a full trace and return its metadata."""
    metadata = tf.compat.v1.RunMetadata()
    engine.train(batch, spec, options=full_trace(), run_metadata=metadata)
    return metadata


def _batch(model: Any, input_shapes: Any, count: int) -> tuple[Any, Any]:
    """Return random inputs (zeros if they are integers), and zeros in the shape of the outputs."""
    rng = np.random.default_rng(0)
    specs, _ = example(model, input_shapes)

    def one(spec: Any) -> tf.Tensor:
        shape = [count, *spec.shape[1:]]
        return tf.cast(rng.normal(size=shape) if spec.dtype.is_floating else np.zeros(shape), spec.dtype)

    x = keras.tree.map_structure(one, specs)
    outputs = keras.tree.map_structure(lambda leaf: leaf[:1], x)
    y = keras.tree.map_structure(lambda leaf: tf.zeros([count, *leaf.shape[1:]], leaf.dtype), model(outputs))
    return x, y
