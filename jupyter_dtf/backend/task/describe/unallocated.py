"""Models with variables that have shapes and no memory: what is only described may be larger than the machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from ..model.patched import patched

SMALL = 4_096
"""Numbers in a variable that is made as ever: counters and states of random generators are read while a model is built.
"""


@contextmanager
def unallocated() -> Iterator[None]:
    """Variables of Keras's that are made while this lasts take no memory. In graphs they are placeholders."""
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
