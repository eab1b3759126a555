"""What every task of the run works out alike from the model: the pieces, the type on the wire, what it is built for."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ...model import keras_io
from . import slots
from .layout import Piece, spread


def pieces_of(variables: list[Any], optimizer: Any, servers: int, split_bytes: int) -> list[Piece]:
    """The pieces of a model's trainable variables, in order of server."""
    elementwise = slots.is_elementwise(optimizer)
    return spread(
        [tuple(v.shape) for v in variables],
        [tf.as_dtype(v.dtype).size for v in variables],
        [elementwise and v.constraint is None for v in variables],
        servers,
        split_bytes,
    )


def wire_dtype(variables: list[Any]) -> Any:
    """The type in which gradients and variables travel: float64 if a variable is, float32 otherwise."""
    return np.dtype("float64" if any(v.dtype == "float64" for v in variables) else "float32")


def to_plain(spec: Any) -> Any:
    """A batch's structure (``keras_io.batch_spec``) as lists, dicts and strings, each marked with what it is."""
    if spec is None:
        return None
    if isinstance(spec, dict):
        return {"dict": {key: to_plain(value) for key, value in spec.items()}}
    if isinstance(spec, tuple):
        return {"tuple": [to_plain(value) for value in spec]}
    return {"shape": list(spec.shape), "dtype": spec.dtype}


def from_plain(plain: Any) -> Any:
    """What ``to_plain`` was given."""
    return keras_io.batch_spec(_specs(plain))


def _specs(plain: Any) -> Any:
    match plain:
        case None:
            return None
        case {"dict": values}:
            return {key: _specs(value) for key, value in values.items()}
        case {"tuple": values}:
            return tuple(_specs(value) for value in values)
        case {"shape": shape, "dtype": dtype}:
            return tf.TensorSpec(shape, dtype)
    raise ValueError(f"A batch is described by to_plain. Received: {plain!r:.200}")
