"""Scales the learning rate linearly, with gradual warm-up.

Goyal et al. 2017, "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", sections 2.1 and 2.2: with n times the
batch size, the rate is multiplied by n. During warm-up, the rate increases from the unscaled rate by the same amount in
every step.

The optimizer still holds the unscaled rate: callbacks and schedules see and set it, and the model has it after the run.
The rate is multiplied only when an update is applied.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ....errors import InvalidInput
from .job import FitJob
from .replaced_attributes import hooked


@dataclass(frozen=True)
class LinearScaling:
    """Multiplies the rate by a factor that reaches ``tasks`` after ``warmup_steps`` steps."""

    tasks: int
    warmup_steps: float = 0.0

    def factor(self, step: Any) -> tf.Tensor:
        """Return the factor by which the rate is multiplied in step ``step``, counted from 0. A float32 scalar."""
        if not self.warmup_steps:
            return tf.constant(float(self.tasks))
        risen = tf.minimum(tf.cast(step, tf.float32) / self.warmup_steps, 1.0)
        return 1.0 + (self.tasks - 1) * risen


def linear_scaling(job: FitJob, tasks: int, steps_per_epoch: int | None) -> LinearScaling | None:
    """Return the scaling that a job's ``scale_lr`` and ``warmup_epochs`` require if ``tasks`` tasks share a step; None:
    no scaling.

    Raises InvalidInput for a warm-up if the number of steps per epoch is unknown.
    """
    if not job.scale_lr or tasks == 1:
        return None
    if job.warmup_epochs and steps_per_epoch is None:
        raise InvalidInput(
            "`warmup_epochs` must be 0 unless the length of an epoch is known from steps_per_epoch or the datasets' "
            f"cardinality, got {job.warmup_epochs:g} with datasets of unknown length",
            field="warmup_epochs",
        )
    return LinearScaling(tasks, job.warmup_epochs * (steps_per_epoch or 0))


@contextmanager
def scaled(optimizer: Any, factor: tf.Tensor | None) -> Iterator[None]:
    """Inside this context, make the optimizer apply ``factor`` times the learning rate that it holds or that its
    schedule returns.
    """
    if factor is None:
        yield
        return
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    current = inner._get_current_learning_rate
    with hooked(inner, _get_current_learning_rate=lambda: _times(current(), factor)):
        yield


def _times(rate: Any, factor: tf.Tensor) -> tf.Tensor:
    rate = tf.convert_to_tensor(rate)
    return rate * tf.cast(factor, rate.dtype)  # float64 if `floatx` is float64
