"""Graph variables that hold a Keras model's variables on the devices of a cluster, and transfers in both directions."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import tensorflow as tf

# TensorFlow 2.21: the shapes behind resource handles are not public.
from tensorflow.python.ops.handle_data_util import create_handle_data, get_handle_data, set_handle_data

# TensorFlow 2.21: the base class of resource variables is not exported.
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

from .pipeline_graph import not_held

SCOPE = "variables"


class GraphVariables:
    """Holds a graph variable for each Keras variable that was added, and transfers values between the two.

    Must be used while the graph is the default graph.
    """

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}

    def __contains__(self, variable: Any) -> bool:
        return id(variable) in self._held

    def add(self, variable: Any, device: str, scope: str) -> None:
        """Place a Keras variable on a device, under a name scope. Do nothing if it has already been added."""
        if id(variable) not in self._held:
            self._held[id(variable)] = _Held(variable, device, f"{scope}/{variable.name}")

    def hold(self, handle: Any, device: str) -> tf.Tensor:
        """Return the graph's handle for an eager variable outside the model, given the variable's eager ``handle``.

        Raises InvalidInput if ``handle`` is not the handle of a variable.
        """
        if id(handle) not in self._held:
            data = get_handle_data(handle)
            if data is None or not data.is_set or len(data.shape_and_type) != 1:
                raise not_held(handle)
            with tf.control_dependencies(None):
                self._held[id(handle)] = _Held(_Foreign(handle, data.shape_and_type[0]), device, "foreign")
        return self._held[id(handle)].handle

    def reads(self) -> list[tuple[Any, tf.Tensor]]:
        """Return each Keras variable with its current value, for a ``StatelessScope``."""
        return [(held.keras, held.value()) for held in self._held.values() if not isinstance(held.keras, _Foreign)]

    def copies(self, of: Container[int]) -> Iterator[tuple[Any, str, tf.Operation, tf.Tensor]]:
        """Add a copy of each Keras variable whose id is in ``of``, in the CPU memory of the task that holds it.

        Yields the Keras variable, the CPU of that task, the operation that updates the copy, and the copy's value.
        """
        for held in self._held.values():
            if id(held.keras) in of:
                cpu = tf.DeviceSpec.from_string(held.device).replace(device_type="CPU", device_index=0).to_string()
                copy = _Held(held.keras, cpu, f"copies/{held.keras.name}")
                yield held.keras, cpu, copy.assign(held.read), copy.value()

    def write(self, values: Iterable[tuple[Any, tf.Tensor]]) -> None:
        """Assign the new values of Keras variables to their graph variables. Unchanged values are skipped."""
        for variable, value in values:
            if value.op.type != "ReadVariableOp":  # a ReadVariableOp means that it has not changed
                self._held[id(variable)].assign(value)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside this context, make Keras variables use the graph variables for reads, assignments and captures."""
        own = [(held.keras, held.keras._value) for held in self._held.values()]
        for held in self._held.values():
            held.keras._value = held.variable
        try:
            yield
        finally:
            for variable, value in own:
                variable._value = value

    def load(self, session: Any, only_new: bool = False) -> None:
        """Load the values of Keras variables that have changed since the last transfer into the graph variables.

        ``only_new``: load only those whose graph variable has no value yet.
        """
        changed = []
        for held in self._held.values():
            if only_new and held.known is not None:
                continue
            value = np.array(held.keras.numpy())
            if held.known is None or not np.array_equal(value, held.known, equal_nan=value.dtype.kind == "f"):
                held.known = value
                changed.append(held)
        session.run([held.write for held in changed], {held.fed.name: held.known for held in changed})

    def fetch(self, session: Any, left_out: Container[int] = ()) -> None:
        """Fetch the values of the graph variables into the Keras variables, except those with ids in ``left_out``."""
        fetched = [held for held in self._held.values() if id(held.keras) not in left_out]
        values = session.run([held.read for held in fetched])
        for held, value in zip(fetched, values, strict=True):
            held.known = value
            held.keras.assign(value)


class _Foreign:
    """An eager variable, identified by its handle, that is not a Keras variable or belongs to another model."""

    trainable = False

    def __init__(self, handle: Any, data: Any) -> None:
        self._handle = handle
        self.dtype = tf.as_dtype(data.dtype)
        self.shape = tf.TensorShape(data.shape)
        self._value: Any = SimpleNamespace(_unique_id=f"foreign_{id(handle)}", name="foreign")

    def numpy(self) -> Any:
        with tf.init_scope():
            return tf.raw_ops.ReadVariableOp(resource=self._handle, dtype=self.dtype).numpy()

    def assign(self, value: Any) -> None:
        with tf.init_scope():
            tf.raw_ops.AssignVariableOp(resource=self._handle, value=tf.constant(value, self.dtype))


class _Held:
    """A Keras variable with its graph variable. ``known``: the last value that was transferred."""

    def __init__(self, variable: Any, device: str, scope: str) -> None:
        self.keras = variable
        self.device = device
        self.known: npt.NDArray[Any] | None = None
        with tf.compat.v1.device(device), tf.name_scope(f"{SCOPE}/{scope}/"):
            self.fed = tf.compat.v1.placeholder(variable.dtype, variable.shape, name="fed")
            name = tf.compat.v1.get_default_graph().unique_name("variable", mark_as_used=False)
            # The name is unique to this ``fit`` run, because a server keeps named variables.
            self.handle = tf.raw_ops.VarHandleOp(
                dtype=self.fed.dtype, shape=variable.shape, shared_name=f"{name} {uuid4()}", name="variable"
            )
            set_handle_data(self.handle, create_handle_data(self.fed.shape, self.fed.dtype))
            self.write = self.assign(self.fed)
            self.read = self.value()
        # As in a tf.function, this is a plain variable with the id and name by which an optimizer identifies it.
        self.variable = BaseResourceVariable(
            trainable=variable.trainable,
            shape=self.fed.shape,
            dtype=self.fed.dtype,
            handle=self.handle,
            unique_id=variable._value._unique_id,
            handle_name=variable._value.name.removesuffix(":0"),
            in_graph_mode=False,
        )

    def value(self) -> tf.Tensor:
        with tf.compat.v1.device(self.device):
            return tf.raw_ops.ReadVariableOp(resource=self.handle, dtype=self.fed.dtype)

    def assign(self, value: tf.Tensor) -> tf.Operation:
        with tf.compat.v1.device(self.device):
            return tf.raw_ops.AssignVariableOp(resource=self.handle, value=value)
