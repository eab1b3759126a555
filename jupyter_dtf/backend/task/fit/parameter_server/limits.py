"""The limits of parameter servers, and the reasons for them."""

from __future__ import annotations

from typing import Any

from .....errors import InvalidInput
from .....schema.strategy import ParameterServer
from ..gradient_sync import optimizers_of


def refuse_without_weights(model: Any) -> None:
    """Raise InvalidInput for a built model without trainable weights, of which the servers would have nothing."""
    if not model.trainable_variables:
        raise InvalidInput(
            "`model` must have trainable weights, because parameter servers hold them, got none. Train it with "
            "dtf.AllReduce()",
            field="model",
        )


def refuse_unsupported(strategy: ParameterServer, model: Any, servers: int | None, *, scale_lr: bool) -> None:
    """Raise InvalidInput, stating the necessary change, for an unsupported model. ``servers``: None if unknown."""
    optimizers = optimizers_of(model)
    if len(optimizers) != 1:
        raise InvalidInput(
            f"`model` must have one optimizer under parameter servers, got {len(optimizers)}", field="model"
        )
    (optimizer,) = optimizers
    if hasattr(optimizer, "inner_optimizer"):
        raise InvalidInput(
            f"`model` must not scale its loss under parameter servers, got {type(optimizer).__name__}. Use the policy "
            "mixed_bfloat16 in place of mixed_float16",
            field="model",
        )
    if optimizer.global_clipnorm is not None and (servers or 1) > 1:
        raise InvalidInput(
            "`global_clipnorm` must be None with several ps tasks, because it limits the norm of all gradients "
            "together, and each ps task has only some of them, got "
            f"{optimizer.global_clipnorm!r} with {servers} ps tasks",
            field="strategy",
        )
    if scale_lr and strategy.sync and not hasattr(optimizer._learning_rate, "assign"):
        raise InvalidInput(
            "`scale_lr` must be False under parameter servers unless the learning rate is a number, got True with "
            f"{type(optimizer._learning_rate).__name__}",
            field="scale_lr",
        )


def refuse_what_cannot_skip(model: Any, *, has_length: bool) -> None:
    """Raise InvalidInput if a task that falls behind could not skip to the step that the other tasks have reached."""
    if model.steps_per_execution != 1:
        raise InvalidInput(
            "`steps_per_execution` must be 1 with backup_workers, because a task that falls behind skips to the step "
            f"that the others have reached, got {model.steps_per_execution}",
            field="model",
        )
    if not has_length:
        raise InvalidInput(
            "`steps_per_epoch` must be given with backup_workers for data of unknown length, because all tasks have "
            "the same number of steps, got None",
            field="steps_per_epoch",
        )


def refuse_sums(is_plain_mean: bool) -> None:
    """Raise InvalidInput for losses that depend on all gradients of a step, because some gradients are dropped."""
    if not is_plain_mean:
        raise InvalidInput(
            "`model`: with backup_workers, a loss must be a mean over examples, without masks, because the size of the "
            "global batch is known only after late gradients have been dropped, got a sum, a weighted mean, or a mean "
            "over unmasked steps",
            field="model",
        )
