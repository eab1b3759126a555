"""Validation of collectives' inputs: conversion to tensors, and rejection of unsupported ones and of invalid places."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ....errors import InvalidInput
from .primitive import TYPES


def checked(value: Any) -> Any:
    """Convert to a tensor, leaving ``tf.IndexedSlices`` unchanged. Raises InvalidInput if it cannot be sent."""
    if isinstance(value, (tf.RaggedTensor, tf.SparseTensor)):
        instead = "value.to_tensor()" if isinstance(value, tf.RaggedTensor) else "tf.sparse.to_dense(value)"
        raise InvalidInput(
            f"`tensor` must be dense, or tf.IndexedSlices where it is reduced, got a {type(value).__name__}: "
            f"send {instead}, or its parts one by one",
            field="tensor",
        )
    tensor = value if isinstance(value, tf.IndexedSlices) else tf.convert_to_tensor(value)
    if tensor.dtype not in TYPES:
        raise InvalidInput(
            f"`tensor` must be of one of the types {', '.join(TYPES.values())}, got {tensor.dtype.name}", field="tensor"
        )
    return tensor


def checked_rows(value: Any) -> tf.Tensor:
    """Convert to a tensor with rows. Raises InvalidInput if it cannot be sent, or is a scalar."""
    if isinstance(value, tf.IndexedSlices):
        value = tf.convert_to_tensor(value)
    tensor = checked(value)
    if not tensor.shape.rank:
        got = "a scalar" if tensor.shape.rank == 0 else "a tensor whose number of dimensions is not known"
        raise InvalidInput(f"`tensor` must have at least one dimension, got {got}", field="tensor")
    return tensor


def check_place() -> None:
    """Raise InvalidInput where collectives are not possible: in code compiled by XLA, and in tf.data functions."""
    if tf.executing_eagerly():
        return
    graph = tf.compat.v1.get_default_graph()
    while graph is not None:
        if _is_compiled(graph):
            raise InvalidInput(
                "XLA cannot compile collectives: call them outside of what it compiles, or use tf.function and "
                "model.compile with jit_compile=False, got jit_compile=True",
                field="jit_compile",
            )
        if getattr(graph, "name", "").startswith("Dataset_"):
            raise InvalidInput(
                "tf.data runs its functions ahead of the program and beside it, so that a collective in one would have "
                f"no place in the order of calls: call it on what the dataset gives, got a call in {graph.name}"
            )
        graph = getattr(graph, "outer_graph", None)


def _is_compiled(graph: Any) -> bool:
    context = graph._get_control_flow_context()
    while context is not None:
        if context.IsXLAContext():
            return True
        context = context.outer_context
    return False
