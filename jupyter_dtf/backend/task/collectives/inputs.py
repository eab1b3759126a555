"""Validation of collectives: conversion of inputs to tensors, and rejection of unsupported inputs and contexts."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ....errors import InvalidInput
from .primitive import TYPES


def checked(value: Any) -> Any:
    """Convert a value, or the parts of ``tf.IndexedSlices``, to a tensor. Raises InvalidInput if it cannot be sent."""
    if isinstance(value, (tf.RaggedTensor, tf.SparseTensor)):
        instead = "value.to_tensor()" if isinstance(value, tf.RaggedTensor) else "tf.sparse.to_dense(value)"
        raise InvalidInput(
            f"`tensor` must be dense, or tf.IndexedSlices in a reduction, got a {type(value).__name__}: "
            f"send {instead}, or its parts one by one",
            field="tensor",
        )
    if isinstance(value, tf.IndexedSlices):
        parts = (value.values, value.indices, value.dense_shape)
        tensor = tf.IndexedSlices(*(part if part is None else tf.convert_to_tensor(part) for part in parts))
    else:
        tensor = tf.convert_to_tensor(value)
    if tensor.dtype not in TYPES:
        raise InvalidInput(
            f"`tensor` must be of one of the types {', '.join(TYPES.values())}, got {tensor.dtype.name}", field="tensor"
        )
    return tensor


def checked_rows(value: Any) -> tf.Tensor:
    """Convert a value to a tensor with rows. Raises InvalidInput if it cannot be sent, or is a scalar."""
    if isinstance(value, tf.IndexedSlices):
        value = tf.convert_to_tensor(value)
    tensor = checked(value)
    if not tensor.shape.rank:
        got = "a scalar" if tensor.shape.rank == 0 else "a tensor with an unknown number of dimensions"
        raise InvalidInput(f"`tensor` must have at least one dimension, got {got}", field="tensor")
    return tensor


def check_place() -> None:
    """Raise InvalidInput in code that cannot contain collectives: code that XLA compiles, and functions of tf.data."""
    if tf.executing_eagerly():
        return
    graph = tf.compat.v1.get_default_graph()
    while graph is not None:
        if _is_compiled(graph):
            raise InvalidInput(
                "XLA cannot compile collectives: call them outside of compiled code, or use tf.function and "
                "model.compile with jit_compile=False, got jit_compile=True",
                field="jit_compile",
            )
        if getattr(graph, "name", "").startswith("Dataset_"):
            raise InvalidInput(
                "tf.data runs its functions concurrently with the program and ahead of it, so a collective there has "
                f"no place in the order of calls: call it on the dataset's elements, not in {graph.name}"
            )
        graph = getattr(graph, "outer_graph", None)


def _is_compiled(graph: Any) -> bool:
    context = graph._get_control_flow_context()
    while context is not None:
        if context.IsXLAContext():
            return True
        context = context.outer_context
    return False
