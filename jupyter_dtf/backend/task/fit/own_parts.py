"""Finds the custom parts of a model, which the project's tests of Keras's own parts cannot cover."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import keras

# Keras 3.15: Trainer converts logs with this function; there is no public one.
from keras.src.utils.python_utils import pythonify_logs

from ..model.model_state import leaves
from .batch_values import metrics_by_log
from .gradient_sync import optimizers_of

_KNOWN = ("keras.", "tensorflow.", "builtins", "jupyter_dtf.backend.task.")


def own_parts(model: Any) -> list[str]:
    """Return the names of the model's parts that affect its weights and may use several examples at once: those that
    are not Keras's own, and text layers that pad to the longest text.

    Operations between layers are included: ``keras.ops.mean(x, axis=0)`` is a Keras operation, but the user chooses the
    axis along which it averages.
    """
    found: dict[str, None] = {}
    base = keras.Model
    kinds = [type(model)] if any(
        getattr(type(model), name) is not getattr(base, name) for name in ("train_step", "compute_loss", "call")
    ) else []  # fmt: skip
    for layer in model._flatten_layers():
        kinds.append(type(layer))
        for operation in getattr(layer, "operations", ()):  # operations of a functional model
            if not isinstance(operation, keras.Layer):
                found[operation.name] = None
        for name, value in vars(layer).items():
            if callable(value) and not hasattr(type(layer), name):  # Keras wraps some methods of the instance
                kinds.append(value if hasattr(value, "__qualname__") else type(value))
    compiled = model._compile_config.config if model._compile_config is not None else {}
    kinds += [value if hasattr(value, "__qualname__") else type(value) for value in leaves(compiled.get("loss"))]
    kinds += [type(optimizer) for optimizer in optimizers_of(model)]
    for kind in kinds:
        if _is_own(kind):
            found[getattr(kind, "__qualname__", str(kind)).rpartition(".")[2]] = None
    for layer in padding_layers(model):
        found[layer.name] = None
    return list(found)


def has_own_train_step(model: Any) -> bool:
    """Return whether the model's class has a custom ``train_step``."""
    return type(model).train_step is not keras.Model.train_step


def own_metrics(model: Any) -> list[str]:
    """Return the names of the logs of a built model's metrics that are not Keras's own, that are updated by a
    ``train_step`` that is not, or that may combine examples because of their ``axis``.
    """
    found = metrics_by_log(model)
    if not found and model.metrics:  # a custom metric computes with another metric's result
        with suppress(Exception):  # a custom metric may have no result yet
            found = pythonify_logs(model.get_metrics_result())
        return list(found)
    if has_own_train_step(model):
        return list(found)
    return [
        name
        for name, metric in found.items()
        if _is_own(type(metric)) or _is_own(getattr(metric, "_fn", None)) or _axis(metric) != -1
    ]


def _axis(metric: Any) -> Any:
    return (getattr(metric, "_fn_kwargs", None) or {}).get("axis", -1)


def _is_own(kind: Any) -> bool:
    """Return whether a class or function is not from Keras or TensorFlow. None is not."""
    return kind is not None and not (getattr(kind, "__module__", "") or "").startswith(_KNOWN)


def padding_layers(model: Any) -> list[Any]:
    """Return the layers that pad their outputs to the longest text of a batch, so that the outputs depend on the other
    examples.
    """
    return [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.TextVectorization)
        and (config := layer.get_config())["output_mode"] == "int"
        and config["output_sequence_length"] is None
        and not config["ragged"]
    ]


def warn_of_batch_metrics(model: Any, ctx: Any) -> None:
    """Warn of metrics of outputs of the shape (batch,), for which Keras computes one value per batch: the mean of these
    values does not depend on the number of examples in each. Equal shares do not show the difference.
    """
    flat = [output for output in getattr(model, "outputs", None) or () if len(output.shape) == 1]
    wrapped = [name for name, m in metrics_by_log(model).items() if isinstance(m, keras.metrics.MeanMetricWrapper)]
    if flat and wrapped:
        ctx.note(
            "warning",
            "Metrics depend on how the batch is divided",
            f"For an output of the shape (batch,), Keras computes one value of a metric per batch, here for the share "
            f"of each task. With shares of different sizes, {_listed(wrapped)} may differ slightly from one process. "
            "Give the output the shape (batch, 1)",
        )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")


def warn_of_padding(model: Any, ctx: Any) -> None:
    """Warn if texts are padded to the longest one and nothing masks the padding, because a share of a batch may have a
    shorter longest text. The first step may not show the difference.
    """
    padding = padding_layers(model)
    if padding and not any(getattr(layer, "mask_zero", False) for layer in model._flatten_layers()):
        ctx.note(
            "warning",
            "Padding depends on how the batch is divided",
            f"{padding[0].name} pads each text to the longest one of a share of the batch; in one process, it pads to "
            "the longest one of the whole batch. Unless later layers ignore the padding, the model trains differently. "
            "Set its output_sequence_length, or use Embedding(mask_zero=True) with layers that support masks",
        )
