"""Contains the limits of ``fit`` over several tasks, and the reasons for them. ``checks.py`` determines when they are
checked.
"""

from __future__ import annotations

import inspect
from typing import Any

from ....errors import InvalidInput
from ....schema.strategy import InGraph, ParameterServer, Pipeline
from ..model.model_state import built_for_others, holds_table

FIT_ARGUMENTS = (
    "epochs",
    "initial_epoch",
    "verbose",
    "callbacks",
    "shuffle",
    "class_weight",
    "steps_per_epoch",
    "validation_data",
    "validation_steps",
    "validation_freq",
)
"""The keyword arguments of ``fit`` in a task."""


def refuse_unsupported(model: Any) -> None:
    """Raise InvalidInput if a compiled model cannot be trained over several tasks. The message says what to change."""
    _refuse_other_fit(model)
    losses: list[Any] = []
    _collect(model.loss if hasattr(model, "loss") else None, losses)
    if any(getattr(loss, "reduction", "") in (None, "none") for loss in losses):
        raise InvalidInput(
            '`model`: a loss must have the reduction "sum_over_batch_size", "mean", "sum" or "mean_with_sample_weight"'
            ", because without one a batch's loss is known only in train_step, got reduction=None",
            field="model",
        )
    if hasattr(type(getattr(model, "optimizer", None)), "optimizers"):
        raise InvalidInput(
            "`model`: an optimizer must have one learning rate, which the tasks agree on in every step, got "
            f"{type(model.optimizer).__name__}, which has several. Write a train_step with several optimizers",
            field="model",
        )
    for layer in model._flatten_layers():
        if getattr(layer, "synchronized", False):
            raise InvalidInput(
                "`model`: a normalization layer must have synchronized=False, because its statistics are those of a "
                f"task's own share of the batch, got {layer.name} with synchronized=True",
                field="model",
            )
        if type(layer).__module__.startswith("keras.") and 0 in _axes(layer):
            raise InvalidInput(
                "`model`: a layer must process each example independently, because a task has only its own share of "
                f"the batch, got {layer.name}, {type(layer).__name__} with axis=0",
                field="model",
            )


def _refuse_other_fit(model: Any) -> None:
    """Raise InvalidInput if the model's class overrides ``fit`` with a method that the tasks cannot call."""
    parameters = inspect.signature(type(model).fit)
    try:
        parameters.bind(model, None, **dict.fromkeys(FIT_ARGUMENTS))
    except TypeError as error:
        raise InvalidInput(
            "`model`: a class that overrides fit must accept the arguments of keras.Model.fit, because each task calls "
            f"fit(dataset, {', '.join(f'{name}=...' for name in FIT_ARGUMENTS)}), got "
            f"{type(model).__name__}.fit{parameters}: {error}",
            field="model",
        ) from None


def refuse_stateful(model: Any, shares: int) -> None:
    """Raise InvalidInput for a model that keeps state for each example of a batch, if several tasks share each
    batch.
    """
    for layer in model._flatten_layers() if shares > 1 else ():
        if getattr(layer, "stateful", False):
            raise InvalidInput(
                "A stateful layer must be trained by one task, or with dtf.Pipeline, because it keeps state for each "
                f"example of a batch and uses it for the next batch, got {layer.name} with stateful=True on {shares} "
                "tasks",
                field="model",
            )


def refuse_unshared(model: Any) -> None:
    """Raise InvalidInput for a built model with weights whose gradients cannot be averaged."""
    for variable in model.trainable_variables:
        if getattr(variable, "overwrite_with_gradient", False):
            raise InvalidInput(
                "`model`: weights must be changed by gradients that can be averaged over the tasks, got "
                f"{variable.path}, whose gradient is its next value (float8). Use the policy mixed_bfloat16",
                field="model",
            )


def refuse_built_for_others(strategy: str, model: Any) -> None:
    """Raise InvalidInput for an optimizer that was built for weights other than the trainable ones."""
    if built_for_others(model):
        raise InvalidInput(
            f"`model`: under {strategy}, an optimizer must have slots for exactly the trainable weights, got one that "
            "was built before they changed. Compile the model again after changing which weights are trainable",
            field="model",
        )


def refuse_losses_of_whole_batch(model: Any) -> None:
    """Raise InvalidInput for a loss that a task cannot compute on its own share of a batch."""
    losses = _leaves(getattr(model, "loss", None))
    ranks = [len(output.shape) for output in _leaves(getattr(model, "outputs", None))]
    for number, loss in enumerate(losses):
        known = len(ranks) == len(losses) and ranks[number] > 1  # targets may add a dimension to (batch,)
        refuse_of_whole_batch(loss, ranks[number] if known else None)


def refuse_tables(model: Any) -> None:
    """Raise InvalidInput for a layer that computes with state other than variables."""
    for layer in model._flatten_layers():
        if holds_table(layer):
            raise InvalidInput(
                "`model`: a pipeline's layers must compute only with variables, because a lookup's table stays in the "
                f"process that created it, got {layer.name}, {type(layer).__name__}. Apply the layer to the data "
                "beforehand, or use another strategy",
                field="model",
            )


def refuse_backups(strategy: ParameterServer, workers: int) -> None:
    """Raise InvalidInput unless there are more workers than backup workers."""
    if strategy.backup_workers >= workers:
        raise InvalidInput(
            "`backup_workers` must be less than the number of workers, because a step needs at least one gradient, "
            f"got {strategy.backup_workers} with {workers} workers",
            field="strategy.backup_workers",
        )


def refuse_fewer_than_backups(strategy: ParameterServer, min_workers: int | None) -> None:
    """Raise InvalidInput unless ``min_workers`` is None or greater than the number of backup workers."""
    if min_workers is not None and min_workers <= strategy.backup_workers:
        raise InvalidInput(
            f"`min_workers` must be greater than backup_workers, got min_workers={min_workers}, "
            f"backup_workers={strategy.backup_workers}",
            field="restart.min_workers",
        )


def refuse_fewer_devices(strategy: InGraph, min_workers: int | None) -> None:
    """Raise InvalidInput if ``min_workers`` is set and devices are named, because every task with a named device is
    needed.
    """
    if min_workers is not None and strategy.devices:
        raise InvalidInput(
            "`min_workers` must be None if dtf.InGraph names its devices, because the tasks with these devices are "
            f"needed, got min_workers={min_workers} with devices={strategy.devices!r:.200}. Omit `devices`",
            field="restart.min_workers",
        )


def refuse_fewer_stages(strategy: Pipeline, min_workers: int | None) -> None:
    """Raise InvalidInput if ``min_workers`` is set for a single pipeline, because each of its tasks holds layers."""
    if min_workers is not None and strategy.replicas == 1:
        raise InvalidInput(
            "`min_workers` must be None with a dtf.Pipeline that has one copy, because each task has layers that "
            f"are needed, got {min_workers} with replicas=1. A lost task must be replaced",
            field="restart.min_workers",
        )


def refuse_scaling(strategy: Pipeline, scale_lr: bool) -> None:
    """Raise InvalidInput if ``scale_lr`` is set for a pipeline that has only one replica."""
    if scale_lr and strategy.replicas == 1:
        raise InvalidInput(
            "`scale_lr` must be False unless a dtf.Pipeline has several copies, as with replicas=2, because it "
            "multiplies the learning rate by the number of copies that share a batch, got scale_lr=True with "
            "replicas=1",
            field="scale_lr",
        )


_MEANS = (
    "binary_crossentropy",
    "binary_focal_crossentropy",
    "hinge",
    "huber",
    "log_cosh",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_squared_error",
    "mean_squared_logarithmic_error",
    "poisson",
    "squared_hinge",
)
"""Keras's losses that are means over an output's last dimension."""
_OVER_LAST_DIMENSION = ("categorical_generalized_cross_entropy", "categorical_hinge", "kl_divergence")
"""Other losses that combine the values of an output's last dimension and have no argument ``axis``."""
_OF_WHOLE_BATCH = ("dice", "tversky", "circle")


def _axes(layer: Any) -> set[int]:
    """Return the axes along which a Keras layer operates. If the rank of its input is known, negative axes are
    converted to non-negative ones.
    """
    axis = getattr(layer, "axis", ())
    try:
        inputs = layer.input
        rank = len((inputs[0] if isinstance(inputs, (list, tuple)) else inputs).shape)
    except (AttributeError, IndexError, TypeError, ValueError):  # an input layer, or one called elsewhere or repeatedly
        rank = 0
    axes = axis if isinstance(axis, (list, tuple)) else [axis]
    return {each + rank if each < 0 and rank else each for each in axes if isinstance(each, int)}


def refuse_of_whole_batch(loss: Any, rank: int | None) -> None:
    """Raise InvalidInput for a Keras loss that is computed over all examples of a batch together, not a mean over
    examples.

    Args:
        loss: A loss object, function or name.
        rank: The number of dimensions of the model's output. None: unknown.
    """
    import keras

    if isinstance(loss, str):
        loss = keras.losses.get(loss)
    function = getattr(loss, "fn", loss)
    name = getattr(function, "__name__", "")
    if function is not getattr(keras.losses, name, None):
        return
    if rank == 1 and is_mean_over_last_dimension(loss):
        return  # which is the mean over the examples
    axis = getattr(loss, "_fn_kwargs", {}).get("axis", _default_axis(function))
    axes = {each + rank if rank and each is not None and each < 0 else each for each in _listed(axis)}
    has_shape_of_batch = rank == 1 and name in _OVER_LAST_DIMENSION
    if name == "circle" or 0 in axes or has_shape_of_batch or (name in _OF_WHOLE_BATCH and None in axes):
        rest = f" with axis={axis}. Give the axes of an example, such as axis=(1, 2, 3)"
        if name == "circle":
            rest = ""
        elif rank == 1:
            rest = " for an output of the shape (batch,). Give the output the shape (batch, 1)"
        raise InvalidInput(
            "`model`: a loss must be a mean over examples, because a task computes it on its own share of the batch, "
            f"got {name}, which is computed over all examples of a batch together{rest}",
            field="model",
        )


def is_mean_over_last_dimension(loss: Any) -> bool:
    """Return whether a loss object or function is one of those of Keras that are means over the last dimension."""
    import keras

    function = getattr(loss, "fn", loss)
    name = getattr(function, "__name__", "")
    return name in _MEANS and function is getattr(keras.losses, name, None)


def _default_axis(function: Any) -> Any:
    axis = inspect.signature(function).parameters.get("axis")
    return None if axis is None else axis.default


def _listed(axis: Any) -> list[Any]:
    return list(axis) if isinstance(axis, (list, tuple)) else [axis]


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return _leaves(list(value.values()))
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _leaves(item)]
    return [] if value is None else [value]


def _collect(value: Any, found: list[Any]) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _collect(item, found)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _collect(item, found)
    elif hasattr(value, "reduction"):
        found.append(value)
