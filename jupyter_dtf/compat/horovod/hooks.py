"""Where Keras asks about a distributed optimizer: two of its methods, replaced when there is the first one."""

from __future__ import annotations

import functools
import warnings
from typing import Any
from weakref import WeakKeyDictionary

import keras
import tensorflow as tf

from ...backend.task.collectives import ops
from . import basics
from .gradients import GradientReducer

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
        trainer = next(cls for cls in keras.Model.__mro__ if "compile" in vars(cls))
        trainer.compile = _without_xla(trainer.compile)
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
        if reducer is None:
            return finite
        return ops.allreduce(tf.cast(finite, tf.int32), op="min", process_set=basics.ours(reducer.process_set)) > 0

    return check_finite_everywhere


def _without_xla(compile_model: Any) -> Any:
    """Steps with collectives are not compiled by XLA, which Keras chooses by itself where there are GPUs."""

    @functools.wraps(compile_model)
    def compile_for_collectives(self: Any, *args: Any, **kwargs: Any) -> Any:
        compile_model(self, *args, **kwargs)
        optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        if (optimizer in _reducers or self.optimizer in _reducers) and self.jit_compile:
            if kwargs.get("jit_compile") is True:
                warnings.warn("A step with collectives cannot be compiled by XLA: jit_compile is ignored", stacklevel=2)
            self.jit_compile = False

    return compile_for_collectives
