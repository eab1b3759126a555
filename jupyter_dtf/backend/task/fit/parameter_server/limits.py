"""What parameter servers cannot train, and why. Checked in every training task, before it trains."""

from __future__ import annotations

from typing import Any

from .....errors import InvalidInput
from .....schema.strategy import ParameterServer
from ..gradients import optimizers_of
from ..job import Arrays, FitJob


def refuse_unsupported(job: FitJob, model: Any, workers: int, servers: int) -> None:
    """Raise InvalidInput, saying what to change, for what cannot be right."""
    strategy = job.strategy
    assert isinstance(strategy, ParameterServer)
    if strategy.backup_workers >= workers:
        raise InvalidInput(
            f"A step takes the gradients of workers - backup_workers tasks, at least one. Received: {workers} workers, "
            f"backup_workers={strategy.backup_workers}",
            field="strategy.backup_workers",
        )
    optimizers = optimizers_of(model)
    if len(optimizers) != 1:
        raise InvalidInput(
            f"Under parameter servers a model has one optimizer. Received: {len(optimizers)}", field="model"
        )
    (optimizer,) = optimizers
    if hasattr(optimizer, "inner_optimizer"):
        raise InvalidInput(
            "Under parameter servers losses are not scaled: use the policy mixed_bfloat16 in place of mixed_float16. "
            f"Received: {type(optimizer).__name__}",
            field="model",
        )
    if optimizer.global_clipnorm is not None and servers > 1:
        raise InvalidInput(
            "global_clipnorm takes the norm of all gradients together, which one ps task has to hold. Received: "
            f"{servers} ps tasks",
            field="strategy",
        )
    if job.scale_lr and strategy.sync and not hasattr(optimizer._learning_rate, "assign"):
        raise InvalidInput(
            "Under parameter servers scale_lr scales a rate that is a number. Received: "
            f"{type(optimizer._learning_rate).__name__}",
            field="scale_lr",
        )
    if strategy.backup_workers:
        _refuse_what_cannot_skip(job, model)


def _refuse_what_cannot_skip(job: FitJob, model: Any) -> None:
    if model.steps_per_execution != 1:
        raise InvalidInput(
            "With backup_workers a late task goes on with the step that the others are at: steps_per_execution=1. "
            f"Received: {model.steps_per_execution}",
            field="model",
        )
    if not isinstance(job.data, Arrays) and job.steps_per_epoch is None:
        raise InvalidInput(
            "With backup_workers all tasks have equally many steps: give steps_per_epoch with data_fn. Received: None",
            field="steps_per_epoch",
        )


def refuse_sums(is_plain_mean: bool) -> None:
    """Raise InvalidInput for losses that need to know all gradients of a step, where some are dropped."""
    if not is_plain_mean:
        raise InvalidInput(
            "With backup_workers a loss is a mean over examples, without masks: what another is of the global batch "
            "is known only when the late ones have been dropped. Received: a sum, a mean over weights or masked steps",
            field="model",
        )
