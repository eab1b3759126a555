"""Values that every task of the run derives from the model: the pieces, the wire type, and the batch structure."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ...model import keras_io
from . import slots
from .layout import Piece, spread


def pieces_of(variables: list[Any], optimizer: Any, servers: int, split_bytes: int) -> list[Piece]:
    """Return the pieces of a model's trainable variables, ordered by server."""
    elementwise = slots.is_elementwise(optimizer)
    return spread(
        [tuple(v.shape) for v in variables],
        [tf.as_dtype(v.dtype).size for v in variables],
        [elementwise and v.constraint is None for v in variables],
        servers,
        split_bytes,
    )


def wire_dtype(variables: list[Any]) -> Any:
    """Return the dtype in which gradients and variables are sent: float64 if any variable has it, otherwise float32."""
    return np.dtype("float64" if any(v.dtype == "float64" for v in variables) else "float32")


def to_plain(spec: Any) -> Any:
    """Convert a batch's structure (``keras_io.batch_spec``) to tagged lists, dicts and strings."""
    if spec is None:
        return None
    if isinstance(spec, dict):
        return {"dict": {key: to_plain(value) for key, value in spec.items()}}
    if isinstance(spec, tuple):
        return {"tuple": [to_plain(value) for value in spec]}
    return {"shape": list(spec.shape), "dtype": spec.dtype}


def from_plain(plain: Any) -> Any:
    """Convert the output of ``to_plain`` back to a batch's structure."""
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
    raise ValueError(f"`plain` must be an output of to_plain, got {plain!r:.200}")
