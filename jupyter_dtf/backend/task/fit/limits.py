"""What ``fit`` cannot do over several tasks, and why. Checked by the client, and for models made there in the tasks."""

from __future__ import annotations

from typing import Any

from ....errors import InvalidInput
from ....schema.strategy import ParameterServer, Pipeline, Strategy
from ..model_state import built_for_others, holds_table


def refuse_unsupported(model: Any) -> None:
    """Raise InvalidInput, saying what to change, if a compiled model cannot be trained over several tasks."""
    losses: list[Any] = []
    _collect(model.loss if hasattr(model, "loss") else None, losses)
    if any(getattr(loss, "reduction", "") in (None, "none") for loss in losses):
        raise InvalidInput(
            'A loss has the reduction "sum_over_batch_size", "mean", "sum" or "mean_with_sample_weight": without one, '
            "what a batch's loss is shows only in train_step. Received: reduction=None",
            field="model",
        )
    for layer in model._flatten_layers():
        if getattr(layer, "synchronized", False):
            raise InvalidInput(
                "Normalization layers take their statistics from a task's own share of the batch: synchronized=False. "
                f"Received: {layer.name} with synchronized=True",
                field="model",
            )


def refuse_under(strategy: Strategy, model: Any) -> None:
    """Raise InvalidInput, saying what to change, if a compiled model cannot be trained under a strategy."""
    pipelined = isinstance(strategy, Pipeline)
    if (pipelined or isinstance(strategy, ParameterServer)) and built_for_others(model):
        raise InvalidInput(
            f"Under {strategy.name} an optimizer must have slots for the weights that are trained and no others: "
            "compile the model again after changing what is trainable. Received: an optimizer that was built before",
            field="model",
        )
    if not pipelined:
        return
    for layer in model._flatten_layers():
        if holds_table(layer):
            raise InvalidInput(
                "A pipeline's layers must compute with variables alone: a lookup's table stays in the process that "
                "made it. Apply the layer to the data before, or use another strategy. "
                f"Received: {layer.name}, {type(layer).__name__}",
                field="model",
            )


def _collect(value: Any, found: list[Any]) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _collect(item, found)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _collect(item, found)
    elif hasattr(value, "reduction"):
        found.append(value)
