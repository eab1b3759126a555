"""Variables that have shapes but no memory, because a model that is only described may not fit into memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from ..model.patched import patched

SMALL = 4_096
"""The maximum number of elements of a variable that is created normally: counters and random states are read while a
model is being built.
"""


@contextmanager
def unallocated() -> Iterator[None]:
    """Create Keras variables without memory within the block. In graphs they become placeholders."""
    original = keras.Variable._initialize_with_initializer

    def later(variable: Any, initializer: Callable[..., Any]) -> None:
        if math.prod(variable._shape) <= SMALL:
            original(variable, initializer)
            return

        def value(shape: Any, dtype: Any) -> Any:
            if tf.executing_eagerly():
                return initializer(shape, dtype=dtype)
            return tf.compat.v1.placeholder(dtype, shape)

        variable._value = None
        variable._initializer = value

    with patched(keras.Variable, _initialize_with_initializer=later):
        yield
