"""Hooks in Keras for distributed optimizers, installed when the first distributed optimizer is created."""

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
"""The reducers of all distributed optimizers, keyed by optimizer."""

_asking = False
"""Whether the hooks have been installed."""


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
    """Return a replacement for ``check_finite`` with which all tasks skip a step if one task has gradients that are not
    finite.

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
    """Return a replacement for Keras's property ``jit_compile`` that is False if the model's optimizer is distributed.

    XLA, which Keras uses by default on GPUs, cannot compile collectives. Keras reads the property when ``fit`` starts,
    so the replacement also works for models that were compiled earlier.
    """

    def is_compiled(self: Any) -> Any:
        optimizer = getattr(self, "optimizer", None)
        distributed = any(o in _reducers for o in (optimizer, getattr(optimizer, "inner_optimizer", None)))
        return not distributed and jit_compile.fget(self)

    return property(is_compiled, jit_compile.fset)
