"""What parameter servers cannot train, and why."""

from __future__ import annotations

from typing import Any

from .....errors import InvalidInput
from .....schema.strategy import ParameterServer
from ..gradient_sync import optimizers_of


def refuse_unsupported(strategy: ParameterServer, model: Any, servers: int | None, *, scale_lr: bool) -> None:
    """Raise InvalidInput, saying what to change, for what cannot be right. ``servers``: None where not yet known."""
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
    if optimizer.global_clipnorm is not None and (servers or 1) > 1:
        raise InvalidInput(
            "global_clipnorm takes the norm of all gradients together, which one ps task has to hold. Received: "
            f"{servers} ps tasks",
            field="strategy",
        )
    if scale_lr and strategy.sync and not hasattr(optimizer._learning_rate, "assign"):
        raise InvalidInput(
            "Under parameter servers scale_lr scales a rate that is a number. Received: "
            f"{type(optimizer._learning_rate).__name__}",
            field="scale_lr",
        )


def refuse_what_cannot_skip(model: Any, *, has_length: bool) -> None:
    """Raise InvalidInput for a model whose late task could not go on with the step that the others are at."""
    if model.steps_per_execution != 1:
        raise InvalidInput(
            "With backup_workers a late task goes on with the step that the others are at: steps_per_execution=1. "
            f"Received: {model.steps_per_execution}",
            field="model",
        )
    if not has_length:
        raise InvalidInput(
            "With backup_workers all tasks have equally many steps: give steps_per_epoch with data whose length is not "
            "known. Received: None",
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
