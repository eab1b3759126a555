"""Restores names of Keras 2 that Horovod programs use but Keras 3 lacks."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import keras
import tensorflow as tf


class CallableList(list[Any]):
    """A list that returns itself when called, because ``optimizer.variables`` was a method in Keras 2."""

    def __call__(self) -> CallableList:
        return self


def restore() -> None:
    """Restore names of Keras 2 in Keras 3. Further calls have no effect.

    These are ``optimizer.variables()``, ``optimizer.lr`` and ``lr=``, ``tf.keras.losses.mean_squared_error``,
    ``tf.keras.backend.set_value``, ``ref()`` of a Keras variable, ``compile(experimental_run_tf_function=...)`` and
    ``BatchNormalization(fused=...)``. The meaning of existing names of Keras 3 does not change.
    """
    base = keras.optimizers.Optimizer
    if hasattr(base, "lr"):
        return
    base.lr = property(lambda self: self.learning_rate, lambda self, value: setattr(self, "learning_rate", value))
    for owner in (_owner(base, "variables"), keras.optimizers.LossScaleOptimizer):
        owner.variables = _callable(owner.__dict__["variables"])
    tf.keras.backend.set_value = lambda variable, value: variable.assign(value)  # Keras 3's works only with tf.Variable
    trainer = _owner(keras.Model, "compile")
    trainer.compile = _forgiving(trainer.compile, "experimental_run_tf_function")
    normalization: Any = keras.layers.BatchNormalization
    normalization.__init__ = _forgiving(normalization.__init__, "fused")
    owner = _owner(base, "__init__")
    owner.__init__ = _with_lr(owner.__init__)
    tf.keras.losses.mean_squared_error = keras.losses.mean_squared_error
    variable: Any = keras.Variable
    if not hasattr(variable, "ref"):
        variable.ref = tf.Variable.ref


def _owner(cls: type, name: str) -> Any:
    """Return the class that defines the attribute ``name`` of ``cls``."""
    return next(c for c in cls.__mro__ if name in vars(c))


def _callable(variables: Any) -> property:
    return property(lambda self: CallableList(variables.fget(self)))


def _forgiving(function: Any, argument: str) -> Any:
    """Wrap a method so that it ignores an argument, with a warning."""

    @functools.wraps(function)
    def without(self: Any, *args: Any, **kwargs: Any) -> Any:
        if argument in kwargs:
            del kwargs[argument]
            warnings.warn(f"Keras 3 has no {argument} and does not need it. The argument is ignored", stacklevel=2)
        return function(self, *args, **kwargs)

    del without.__wrapped__  # Keras inspects the signatures of functions that it calls
    return without


def _with_lr(initialize: Any) -> Any:
    """Wrap a constructor so that it accepts ``lr``, the former name of ``learning_rate``."""

    @functools.wraps(initialize)
    def with_lr(self: Any, *args: Any, **kwargs: Any) -> None:
        rate = kwargs.pop("lr", None)
        if rate is not None:
            kwargs["learning_rate"] = rate  # replaces the default of a subclass
        initialize(self, *args, **kwargs)

    return with_lr
