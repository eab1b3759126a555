"""A model's way forward, once for each microbatch, with every layer on its device."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from ... import layer_calls
from .follow import within
from .graph import as_function
from .places import Places
from .split import split_call

FORWARD = "forward"
"""The name scope: ``forward/2/encoder/dense_1`` has what layer ``encoder/dense_1`` does with the third microbatch."""


class Values:
    """Variables with the tensors that stand for them. ``split``: those that are not kept themselves, but in parts."""

    def __init__(self, pairs: Sequence[tuple[Any, tf.Tensor]], split: Sequence[tuple[Any, Sequence[Any]]] = ()) -> None:
        self.pairs = list(pairs)
        self.split = split
        self._tensors = {id(variable): value for variable, value in pairs}
        self._parts = {id(variable): parts for variable, parts in split}

    def __getitem__(self, variable: Any) -> tf.Tensor:
        return self._tensors[id(variable)]

    def parts(self, variable: Any) -> list[tf.Tensor]:
        """The values of the parts of a variable that is split."""
        return [self[part] for part in self._parts[id(variable)]]

    @property
    def mapping(self) -> list[tuple[Any, tf.Tensor]]:
        """What a ``StatelessScope`` takes: every variable of the model, too, that is kept in parts."""
        return [*self.pairs, *((variable, tf.concat(self.parts(variable), -1)) for variable, _ in self.split)]

    def after(self, scope: Any, chosen: Sequence[Any]) -> Values:
        """The same, but for the chosen variables what they have become in a ``StatelessScope``."""
        changed = {id(variable): scope.get_current_value(variable) for variable in chosen}
        return Values([(variable, changed.get(id(variable), value)) for variable, value in self.pairs], self.split)


@dataclass
class Part:
    """The examples of a microbatch. ``share``: the part of the batch that they are, float32."""

    inputs: Any
    share: tf.Tensor


@dataclass
class Pass:
    """A microbatch's way forward."""

    outputs: Any
    losses: list[tf.Tensor]
    """That layers have added to the model's, of this microbatch."""
    share: tf.Tensor
    """As in its ``Part``."""
    number: int
    """Of the microbatch, counted from 0 over all copies."""
    operations: list[tf.Operation]

    @property
    def leaves(self) -> list[tf.Tensor]:
        return list(keras.tree.flatten(self.outputs))


def forward(
    model: Any, places: Places, part: Part, values: Values, *, number: int, training: bool
) -> tuple[Pass, Values]:
    """What the model makes of a microbatch, and the variables' values afterwards, as layers change their state."""
    with within(None):
        scope = keras.StatelessScope(values.mapping, collect_losses=True)
    base = f"{FORWARD}/{number}/"

    def call(path: str, layer: Any, args: Any, kwargs: Any, proceed: Callable[[], Any]) -> Any:
        if not path:
            return proceed()
        devices = places.of(path)
        with tf.name_scope(f"{base}{scope_name(places.name(path))}/"), within(devices[0] if devices else None):
            if len(devices) < 2:
                return proceed()
            with split_call(layer, devices, values.parts):
                return proceed()

    with (
        operations_made() as made,
        within(None),
        tf.name_scope(base),
        as_function(),
        scope,
        layer_calls.watched(model, call),
    ):
        outputs = model(part.inputs, training=training) if model._call_has_training_arg else model(part.inputs)
    moved = values.after(scope, [variable for variable, _ in values.pairs if not variable.trainable])
    return Pass(outputs, list(scope.losses), part.share, number, made), moved


def scope_name(layer: str) -> str:
    """A layer's id as a name scope, in which not all letters may be."""
    return re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", layer)


@contextmanager
def operations_made() -> Iterator[list[tf.Operation]]:
    """The operations that the default graph has got while this lasted."""
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    made: list[tf.Operation] = []
    yield made
    made += graph.get_operations()[before:]
