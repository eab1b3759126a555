"""Runs a model's forward pass once for each microbatch, with every layer on its device."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from ...describe import layer_calls
from .follow import within
from .layer_devices import Places
from .pipeline_graph import as_function
from .split import split_call
from .state import Assignments, Values
from .variables import SCOPE as VARIABLES

FORWARD = "forward"
"""The name scope of forward passes. ``forward/2/encoder/dense_1`` contains the operations of layer ``encoder/dense_1``
for microbatch 2.
"""


@dataclass
class Part:
    """The examples of a microbatch: the rows of the batch from ``low`` up to, but not including, ``high``.

    ``share``: the microbatch's fraction of the batch's examples, float32.
    """

    inputs: Any
    low: tf.Tensor
    high: tf.Tensor
    share: tf.Tensor


@dataclass
class Pass:
    """The forward pass of a microbatch."""

    outputs: Any
    assignments: Assignments
    """The pass's assignments to variables, and the losses that layers have added in it."""
    part: Part
    number: int
    """The number of the microbatch, counted from 0 over all copies."""
    operations: list[tf.Operation]

    @property
    def leaves(self) -> list[tf.Tensor]:
        """All tensors that a loss may use: the outputs, and the logits from which the outputs were computed."""
        return [each for output in keras.tree.flatten(self.outputs) for each in (output, *logits_of(output))]

    @property
    def losses(self) -> list[tf.Tensor]:
        return list(self.assignments.losses)


def forward(model: Any, places: Places, part: Part, assignments: Assignments, *, number: int, training: bool) -> Pass:
    """Run the model's forward pass for a microbatch."""
    with (
        operations_made() as made,
        within(None),
        tf.name_scope(f"{FORWARD}/{number}/"),
        as_function(),
        assignments,
        placed(model, places, number, assignments.values),
    ):
        outputs = model(part.inputs, training=training) if model._call_has_training_arg else model(part.inputs)
    return Pass(outputs, assignments, part, number, made)


def placed(model: Any, places: Places, number: int, values: Values | None = None) -> AbstractContextManager[None]:
    """Return a context in which each layer that is called for a microbatch runs on its device.

    ``values``: the values of variables, including the parts of split layers.
    """
    base = f"{FORWARD}/{number}/"

    def call(path: str, layer: Any, args: Any, kwargs: Any, proceed: Callable[[], Any]) -> Any:
        if not path:
            return proceed()
        devices = places.of(path)
        with tf.name_scope(f"{base}{scope_name(places.name(path))}/"), within(devices[0] if devices else None):
            if len(devices) < 2 or values is None:
                return proceed()
            with split_call(layer, devices, values.parts):
                return proceed()

    return layer_calls.watched(model, call)


def logits_of(output: tf.Tensor) -> list[tf.Tensor]:
    """Return the logits from which an output of probabilities was computed, or an empty list.

    Keras's losses find the logits in the same way, to avoid logarithms of zero.
    """
    known = getattr(output, "_keras_logits", None)
    if known is not None:
        return [known]
    return [output.op.inputs[0]] if output.op.type in ("Softmax", "Sigmoid") else []


def scope_name(layer: str) -> str:
    """Return a layer's id as a name scope, with replacements for characters that are not allowed there."""
    return re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", layer)


@contextmanager
def operations_made() -> Iterator[list[tf.Operation]]:
    """Collect the operations added to the default graph inside this context, except those that transfer variables."""
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    made: list[tf.Operation] = []
    yield made
    made += [one for one in graph.get_operations()[before:] if not one.name.startswith(f"{VARIABLES}/")]
