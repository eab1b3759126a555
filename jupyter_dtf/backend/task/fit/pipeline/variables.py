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

    def add(self, variable: Any, device: str, scope: str) -> None:
        """Put a Keras variable on a device, under a name scope. Does nothing to one that is there already."""
        if id(variable) not in self._held:
            self._held[id(variable)] = _Held(variable, device, f"{SCOPE}/{scope}/{variable.name}")

    def reads(self) -> list[tuple[Any, tf.Tensor]]:
        """Each Keras variable with its present value, as a ``StatelessScope`` takes them."""
        return [(held.keras, held.value()) for held in self._held.values()]

    def writes(self, values: Iterable[tuple[Any, tf.Tensor]]) -> list[tf.Operation]:
        """Operations that write what Keras variables have become."""
        written = []
        for variable, value in values:
            held = self._held[id(variable)]
            if value.op.type != "ReadVariableOp":  # it has not changed
                written.append(held.assign(value))
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

    def __init__(self, variable: Any, device: str, scope: str) -> None:
        self.keras = variable
        self.device = device
        self.known: npt.NDArray[Any] | None = None
        with tf.compat.v1.device(device), tf.name_scope(scope):
            self.fed = tf.compat.v1.placeholder(variable.dtype, variable.shape, name="fed")
            name = tf.compat.v1.get_default_graph().unique_name("variable", mark_as_used=False)
            self._handle = tf.raw_ops.VarHandleOp(
                dtype=self.fed.dtype, shape=variable.shape, shared_name=name, name="variable"
            )
            self.write = self.assign(self.fed)
            self.read = self.value()

    def value(self) -> tf.Tensor:
        with tf.compat.v1.device(self.device):
            return tf.raw_ops.ReadVariableOp(resource=self._handle, dtype=self.fed.dtype)

    def assign(self, value: tf.Tensor) -> tf.Operation:
        with tf.compat.v1.device(self.device):
            return tf.raw_ops.AssignVariableOp(resource=self._handle, value=value)
