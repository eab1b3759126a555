"""Measures how long steps wait for their batches in ``get_next`` of the iterator that Keras's train function reads.

Keras calls ``get_next`` inside a compiled function, so the clock is read by two operations of that function, before and
after ``get_next``, and a third operation adds up the times. This overhead is a few microseconds per step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

# TensorFlow 2.21: a tf.function recreates an iterator argument from its type spec, whose class is not public.
from tensorflow.python.data.ops.iterator_ops import IteratorSpec, OwnedIterator

from .. import determinism


class _Spent:
    """The seconds that this process has waited for batches. The time waited in compiled functions is held in a
    variable.
    """

    def __init__(self) -> None:
        self.eagerly_s = 0.0
        self.variable: Any = None

    def make(self) -> None:
        """Create the variable, before a function that adds to it is traced."""
        if self.variable is None:
            with tf.init_scope(), tf.device("CPU:0"):
                self.variable = tf.Variable(0.0, dtype=tf.float64, trainable=False)


_spent = _Spent()


def spent_s() -> float:
    """Return the seconds that steps of this process have waited for their batches. A call takes about 10
    microseconds.
    """
    if _spent.variable is None:
        return _spent.eagerly_s
    return _spent.eagerly_s + float(_spent.variable.numpy())


class _Timed(OwnedIterator):
    """An iterator that adds up the time spent waiting for its batches."""

    @property
    def _type_spec(self) -> Any:
        return _TimedSpec(self.element_spec)

    def _next_internal(self) -> Any:
        return _timed(super()._next_internal)

    def get_next_as_optional(self) -> Any:
        return _timed(super().get_next_as_optional)


class _TimedSpec(IteratorSpec):
    """The type spec of a timed iterator, which keeps the iterator timed in a ``tf.function``."""

    __slots__ = ()

    @property
    def value_type(self) -> Any:
        return _Timed

    def _from_components(self, components: Any) -> Any:
        return _Timed(components=components, element_spec=self._element_spec)

    @staticmethod
    def from_value(value: Any) -> Any:
        return _TimedSpec(value.element_spec)


def _timed(draw: Callable[[], Any]) -> Any:
    if tf.executing_eagerly():
        begun = time.perf_counter()
        drawn = draw()
        _spent.eagerly_s += time.perf_counter() - begun
        return drawn
    with tf.device("CPU:0"):
        begin = tf.timestamp()
    with tf.control_dependencies([begin]):
        drawn = draw()
    with (
        tf.control_dependencies([each for each in tf.nest.flatten(drawn, expand_composites=True) if each is not None]),
        tf.device("CPU:0"),
    ):
        end = tf.timestamp()
        _spent.variable.assign_add(end - begin, read_value=False)
    # Operations that need the whole batch must not run before the clock is read: make one of the batch's tensors wait.
    first, *others = tf.nest.flatten(drawn, expand_composites=True)
    with tf.control_dependencies([end]):
        first = tf.identity(first)
    return tf.nest.pack_sequence_as(drawn, [first, *others], expand_composites=True)


def timed(run: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap Keras's train function ``run`` so that it measures how long its steps wait for their batches.

    This time is not measured if TensorFlow's operations must be deterministic, because reading the clock is then an
    error.
    """
    if determinism.is_enabled():
        return run
    _spent.make()

    def train_function(iterator: Any) -> Any:
        if type(iterator) is not OwnedIterator:
            return run(iterator)
        found = getattr(iterator, "_dtf_timed", None)
        if found is None:
            found = _Timed(components=(iterator._iterator_resource,), element_spec=iterator.element_spec)
            iterator._dtf_timed = found
        return run(found)

    return train_function
