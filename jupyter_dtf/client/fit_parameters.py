"""The settings of a training run that its record and the dashboard show."""

from __future__ import annotations

from typing import Any

from msgspec.structs import fields

from ..backend.task.fit.job import Arrays, FitJob
from ..backend.task.fit.sources.base import BatchSource
from ..backend.task.model import keras_io
from .fit_data import length_of


def shown_parameters(model: Any, job: FitJob) -> dict[str, Any]:
    """Return the settings of the run that the dashboard shows."""
    shown: dict[str, Any] = {"epochs": job.epochs}
    if isinstance(job.data, Arrays):
        shown["batch_size"] = job.batch_size or 32
        shown["examples"] = length_of(job.data)
    elif isinstance(job.data, BatchSource) and job.data.examples is not None:
        shown["examples"] = job.data.examples
    if job.scale_lr:
        shown["warmup_epochs"] = job.warmup_epochs
    if isinstance(job.validation_data, Arrays):
        shown["validation_examples"] = length_of(job.validation_data)
    if isinstance(job.model, keras_io.PackedModel):
        optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
        shown["optimizer"] = type(optimizer).__name__
        if (rate := _rate(optimizer)) is not None:
            shown["learning_rate"] = rate
        if loss := _called(getattr(model, "loss", None)):
            shown["loss"] = loss
        if model.built:
            shown["weights"] = int(model.count_params())
    chosen = {each.name: (getattr(job.strategy, each.name), each.default) for each in fields(job.strategy)}
    plain = {
        name: value
        for name, (value, usual) in chosen.items()
        if isinstance(value, (str, int, float)) and value != usual
    }
    return shown | plain


def _rate(optimizer: Any) -> float | str | None:
    """Return an optimizer's learning rate, or the class name of its schedule; None if its configuration has neither."""
    try:
        rate = optimizer.get_config().get("learning_rate")
        if isinstance(rate, dict):
            return str(rate["class_name"])
        return None if rate is None else float(f"{float(rate):.6g}")  # a float32 cannot hold 0.001 exactly
    except Exception:  # a user's own class: displaying a value must not cause a failure
        return None


def _called(loss: Any) -> str:
    """Return the name of a loss; empty if it has none."""
    name = loss if isinstance(loss, str) else getattr(loss, "name", None) or getattr(loss, "__name__", "")
    return name if isinstance(name, str) else ""


def form_of(data: Any) -> str:
    """Return a short name for the form of the data, such as ``arrays`` or ``tf.data.Dataset``."""
    if isinstance(data, BatchSource):
        return data.what.removeprefix("the ").removeprefix("a ")
    return "arrays" if isinstance(data, Arrays) else "function"
