"""Hooks for distributed optimizers: two of Keras's methods are replaced when the first one is created."""

from __future__ import annotations

import functools
from typing import Any
from weakref import WeakKeyDictionary

import keras
import tensorflow as tf

from ...backend.task.collectives import ops
from . import process_sets
from .synced_gradients import GradientReducer

_reducers: WeakKeyDictionary[Any, GradientReducer] = WeakKeyDictionary()
"""The reducers of all distributed optimizers."""

_asking = False
"""Whether Keras's methods have been replaced."""


def register(optimizer: Any, reducer: GradientReducer) -> None:
    """Make Keras treat an optimizer as a distributed one from now on."""
    global _asking
    if not _asking:
        _asking = True
        scaling = keras.optimizers.LossScaleOptimizer
        scaling.check_finite = _agreeing(scaling.check_finite)
        trainer: Any = next(cls for cls in keras.Model.__mro__ if "jit_compile" in vars(cls))
        trainer.jit_compile = _without_xla(trainer.jit_compile)
    _reducers[optimizer] = reducer


def _agreeing(check_finite: Any) -> Any:
    """Make all tasks skip a step if the gradients of one task are not finite.

    With ``mixed_float16``, ``compile`` wraps the optimizer in a LossScaleOptimizer. If each task decided on its own,
    one task would skip the collective in which the others wait.
    """

    @functools.wraps(check_finite)
    def check_finite_everywhere(self: Any, grads: Any) -> Any:
        finite = check_finite(self, grads)
        reducer = _reducers.get(self.inner_optimizer)
        if reducer is None or not process_sets.included(reducer.process_set):
            return finite
        return (
            ops.allreduce(tf.cast(finite, tf.int32), op="min", process_set=process_sets.ours(reducer.process_set)) > 0
        )

    return check_finite_everywhere


def _without_xla(jit_compile: Any) -> property:
    """Disable XLA, which Keras uses by default on GPUs, for steps with collectives.

    The property is evaluated when ``fit`` starts; ``compile`` is not replaced.
    """

    def is_compiled(self: Any) -> Any:
        optimizer = getattr(self, "optimizer", None)
        distributed = any(o in _reducers for o in (optimizer, getattr(optimizer, "inner_optimizer", None)))
        return not distributed and jit_compile.fget(self)

    return property(is_compiled, jit_compile.fset)
