"""A Keras model's variables on the devices of a cluster: graph variables, loaded from it and fetched back into it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

SCOPE = "variables"


class GraphVariables:
    """One variable in the graph for each Keras variable that was added, and how its value gets there and back.

    To be used with the graph as the default one. A step reads each variable once; what it computes is written by
    ``assignment``.
    """

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}

    def add(self, variable: Any, device: str) -> None:
        """Put a Keras variable on a device. Does nothing to one that is there already."""
        if id(variable) not in self._held:
            self._held[id(variable)] = _Held(variable, device)

    def reads(self) -> list[tuple[Any, tf.Tensor]]:
        """Each Keras variable with its present value, as a ``StatelessScope`` takes them."""
        values = []
        for held in self._held.values():
            with tf.compat.v1.device(held.device):
                values.append((held.keras, held.graph.value()))
        return values

    def writes(self, values: Iterable[tuple[Any, tf.Tensor]]) -> list[tf.Operation]:
        """Operations that write what Keras variables have become."""
        written = []
        for variable, value in values:
            held = self._held[id(variable)]
            if value.op.type != "ReadVariableOp":  # it has not changed
                with tf.compat.v1.device(held.device):
                    written.append(held.graph.assign(value, read_value=False))
        return written

    def load(self, session: Any) -> None:
        """Give the graph variables the values of the Keras variables, where these are not the last that both had."""
        changed = []
        for held in self._held.values():
            value = np.array(held.keras.numpy())
            if held.known is None or not np.array_equal(value, held.known, equal_nan=value.dtype.kind == "f"):
                held.known = value
                changed.append(held)
        session.run([held.write for held in changed], {held.fed: held.known for held in changed})

    def fetch(self, session: Any) -> None:
        """Give all Keras variables the values of the graph variables."""
        values = session.run([held.read for held in self._held.values()])
        for held, value in zip(self._held.values(), values, strict=True):
            held.known = value
            held.keras.assign(value)


class _Held:
    """One variable. ``known``: the value that both sides had last."""

    def __init__(self, variable: Any, device: str) -> None:
        self.keras = variable
        self.device = device
        self.known: npt.NDArray[Any] | None = None
        with tf.compat.v1.device(device), tf.name_scope(f"{SCOPE}/{variable.path}"):
            self.fed = tf.compat.v1.placeholder(variable.dtype, variable.shape, name="fed")
            self.graph = tf.compat.v1.Variable(
                self.fed, trainable=False, use_resource=True, collections=[], name="variable"
            )
            self.write = self.graph.assign(self.fed, read_value=False)
            self.read = self.graph.value()
