"""What ``fit`` cannot do over several tasks, and why. Checked by the client, and for models made there in the tasks."""

from __future__ import annotations

from typing import Any

from ....errors import InvalidInput


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


def refuse_stateful(model: Any, shares: int) -> None:
    """Raise InvalidInput for a model that keeps state of the examples of a batch, if so many tasks share each batch."""
    for layer in model._flatten_layers() if shares > 1 else ():
        if getattr(layer, "stateful", False):
            raise InvalidInput(
                "A stateful layer keeps state of every example of a batch, which goes on with the next one: it must "
                f"be trained by one task, or by dtf.Pipeline, got {layer.name} with stateful=True on {shares} tasks",
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
