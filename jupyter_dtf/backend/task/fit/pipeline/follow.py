"""Devices for operations that no placement speaks of: each runs beside the largest thing that it takes.

That keeps an addition between two layers, a loss, or an optimizer's arithmetic where its numbers are, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

DATA_SCOPE = "data"
"""The name scope of what a batch is fed to, which draws nothing to its side."""


def beside_inputs(operation: tf.Operation) -> str:
    """A device function for ``tf.compat.v1.device``; empty for what takes nothing, which ``settle`` then places."""
    if operation.device or not operation.inputs:
        return str(operation.device)
    return str(max(operation.inputs, key=_pull).op.device)


def settle(operations: list[tf.Operation]) -> None:
    """Place what takes nothing, a constant say, beside the first operation that uses it."""
    for operation in reversed(operations):
        if operation.device:
            continue
        users = (user.device for output in operation.outputs for user in output.consumers())
        device = next((device for device in users if device), "")
        if device:
            operation._set_device(device)


def within(device: str | None) -> Any:
    """A scope whose operations run on ``device``; None: beside their inputs."""
    function: Callable[[tf.Operation], str] | str = beside_inputs if device is None else device
    return tf.compat.v1.device(function)


def _pull(tensor: tf.Tensor) -> tuple[bool, bool, bool, int]:
    """A variable itself holds its operations; then what has a place, is not of the batch, and is larger."""
    known = tensor.shape.rank is not None
    size = 1
    for length in tensor.shape if known else ():
        size *= length or 1
    is_data = tensor.op.name.startswith(f"{DATA_SCOPE}/")
    return tensor.dtype == tf.resource, bool(tensor.op.device), not is_data, size
