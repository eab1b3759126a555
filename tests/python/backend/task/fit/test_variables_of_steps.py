"""Tests that a GPU can hold the variables that a training step changes."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from jupyter_dtf.backend.task.collectives.primitive import Alone
from jupyter_dtf.backend.task.fit.gradient_sync import GradientSync
from jupyter_dtf.backend.task.fit.steps import TestStep as ValidationStep
from jupyter_dtf.backend.task.fit.steps import TrainStep
from jupyter_dtf.schema.strategy import AllReduce

from .cases import dense


def variables_in(thing: Any, seen: set[int] | None = None) -> list[tf.Variable]:
    """Return the ``tf.Variable`` objects in an object's attributes, and in those of the package's objects within it."""
    seen = set() if seen is None else seen
    if isinstance(thing, tf.Variable):
        return [thing]
    if id(thing) in seen:
        return []
    seen.add(id(thing))
    if isinstance(thing, (list, tuple)):
        return [found for each in thing for found in variables_in(each, seen)]
    if not type(thing).__module__.startswith("jupyter_dtf"):
        return []
    return [found for each in getattr(thing, "__dict__", {}).values() for found in variables_in(each, seen)]


def test_none_is_of_a_type_that_tensorflow_keeps_off_gpus() -> None:
    """A step that XLA has compiled for a GPU cannot access host memory, where TensorFlow keeps int32 variables."""
    model = dense("sgd")
    sync = GradientSync(Alone(), AllReduce())
    sync.install(model.optimizer)
    found = variables_in([sync, TrainStep(model, sync, False), ValidationStep(model)])
    assert len(found) > 6
    assert tf.int32 not in {variable.dtype for variable in found}
