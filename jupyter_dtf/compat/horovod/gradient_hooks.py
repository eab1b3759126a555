"""Where Keras asks about a distributed optimizer: two of its methods, replaced when there is the first one."""

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
"""Of every distributed optimizer."""

_asking = False
"""Whether Keras's methods are ours."""


def register(optimizer: Any, reducer: GradientReducer) -> None:
    """From here on Keras knows this optimizer for a distributed one."""
    global _asking
    if not _asking:
        _asking = True
        scaling = keras.optimizers.LossScaleOptimizer
        scaling.check_finite = _agreeing(scaling.check_finite)
        trainer: Any = next(cls for cls in keras.Model.__mro__ if "jit_compile" in vars(cls))
        trainer.jit_compile = _without_xla(trainer.jit_compile)
    _reducers[optimizer] = reducer


def _agreeing(check_finite: Any) -> Any:
    """All tasks skip the step in which one's gradients are not finite.

    ``compile`` puts a LossScaleOptimizer around an optimizer under ``mixed_float16``. Were each task to decide on its
    own, one would skip the collective that the others wait in.
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
    """Steps with collectives are not compiled by XLA, which Keras chooses by itself where there are GPUs.

    Asked when ``fit`` begins: the ``compile`` that is given the first distributed optimizer is Keras's own.
    """

    def is_compiled(self: Any) -> Any:
        optimizer = getattr(self, "optimizer", None)
        distributed = any(o in _reducers for o in (optimizer, getattr(optimizer, "inner_optimizer", None)))
        return not distributed and jit_compile.fget(self)

    return property(is_compiled, jit_compile.fset)
