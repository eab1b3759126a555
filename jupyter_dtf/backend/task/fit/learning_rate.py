"""Linear scaling of the learning rate with gradual warm-up.

Goyal et al. 2017, "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", sections 2.1 and 2.2: when the batch is
n times as large, the rate is n times as high, and training begins with the rate of one task, which rises by the same
amount every step.

What the optimizer holds stays the rate of one task: it is what callbacks and schedules see and set, and what a model
has after the run. Only where it is applied it is multiplied.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ....errors import InvalidInput
from .hooked import hooked
from .job import FitJob


@dataclass(frozen=True)
class LinearScaling:
    """The rate is multiplied by ``tasks``, reached after ``warmup_steps`` steps."""

    tasks: int
    warmup_steps: float = 0.0

    def factor(self, step: Any) -> tf.Tensor:
        """What the rate of step ``step``, counted from 0, is multiplied by. A float32 scalar."""
        if not self.warmup_steps:
            return tf.constant(float(self.tasks))
        risen = tf.minimum(tf.cast(step, tf.float32) / self.warmup_steps, 1.0)
        return 1.0 + (self.tasks - 1) * risen


def linear_scaling(job: FitJob, tasks: int, steps_per_epoch: int | None) -> LinearScaling | None:
    """What ``scale_lr`` and ``warmup_epochs`` of a job ask for, where ``tasks`` share a step; None for nothing.

    Raises InvalidInput if there is a warm-up and nobody knows how many steps an epoch has.
    """
    if not job.scale_lr or tasks == 1:
        return None
    if job.warmup_epochs and steps_per_epoch is None:
        raise InvalidInput(
            "A warm-up of the learning rate needs an epoch of known length: give steps_per_epoch, or a dataset whose "
            f"cardinality is known. Received: warmup_epochs={job.warmup_epochs:g} and datasets of unknown length",
            field="warmup_epochs",
        )
    return LinearScaling(tasks, job.warmup_epochs * (steps_per_epoch or 0))


@contextmanager
def scaled(optimizer: Any, factor: tf.Tensor | None) -> Iterator[None]:
    """While this lasts, an optimizer that is applied uses ``factor`` times its learning rate, or a schedule's."""
    if factor is None:
        yield
        return
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    current = inner._get_current_learning_rate
    with hooked(inner, _get_current_learning_rate=lambda: tf.convert_to_tensor(current()) * factor):
        yield
