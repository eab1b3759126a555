"""Compares a trained model's outputs for a few examples in its task with its outputs after it has been sent back.

Equal weights do not guarantee equal outputs, because a model may also compute with other state. Importing this module
does not import Keras.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

EXAMPLES = 32
BYTES = 1 << 20
NUMBERS = 4096
"""The maximum number of values of each output that are compared."""

# Tolerances relative to the largest value: another device may round differently and compute in another order.
_FLOAT64, _FLOAT32, _TENSOR_FLOAT, _HALF = 1e-6, 1e-3, 2e-2, 1e-1
_LARGE_MODEL = 10_000_000
_UNKNOWN_SIZE = 16


@dataclass
class Answer:
    """A model's outputs for a batch."""

    outputs: list[Any]
    """Some values of each output, as float64."""
    loss: float | None
    tolerance: float


@dataclass
class Question:
    """A batch ``(x, y, sample_weight)`` and the model's outputs for it in its task."""

    batch: tuple[Any, Any, Any]
    answer: Answer


def ask(model: Any, arrays: Any, spec: Any) -> Question | None:
    """Record a model's outputs for a few examples.

    Args:
        model: The model.
        arrays: ``(x, y, sample_weight)``, of which the first examples are used, or None to use generated data.
        spec: The spec of a batch, from ``keras_io.batch_spec``, for generated data.

    Returns:
        The examples with the outputs; None if the model cannot be called, for example because it has a ``train_step``
        but no ``call``.
    """
    try:
        batch = _made_up(spec) if arrays is None else _first(arrays, _examples(model, arrays))
        return None if batch is None else Question(batch, _answer(model, batch))
    except Exception:
        return None


def difference(model: Any, question: Question) -> str:
    """Return a description of how a model's outputs differ from its outputs in the task, or an empty string if they do
    not.

    The result is also empty if the outputs are not even reproducible here, or if the model cannot be called here, such
    as a GPU model on a machine without GPUs.
    """
    try:
        here = _answer(model, question.batch)
        found = _compared(here, question.answer)
        # A model that uses external random numbers never returns the same outputs twice.
        return found if found and not _compared(here, _answer(model, question.batch)) else ""
    except Exception:
        return ""


# -- calling the model -------------------------------------------------------------------------------------------------


def _answer(model: Any, batch: tuple[Any, Any, Any]) -> Answer:
    import keras

    x, y, sample_weight = (keras.tree.map_structure(_tensor, part) for part in batch)
    values = [(variable, variable.value) for variable in model.variables]
    # In a stateless scope, so that this does not change the model's state.
    with keras.StatelessScope(values, collect_losses=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = model(x, training=False) if model._call_has_training_arg else model(x)
        loss = None
        if y is not None or model._compile_loss is None:
            value = model._compute_loss(x, y, outputs, sample_weight, training=False)
            loss = None if value is None else float(value)
    kept = [_some(output) for output in keras.tree.flatten(outputs)]
    return Answer([output for output in kept if output is not None], loss, _tolerance(model))


def _tensor(value: Any) -> Any:
    import keras
    import tensorflow as tf

    if value is None:
        return None
    tensor = tf.convert_to_tensor(value)
    return tf.cast(tensor, keras.config.floatx()) if tensor.dtype in (tf.float32, tf.float64) else tensor


def _some(output: Any) -> Any:
    """Return some values of an output, evenly spaced; None for strings and non-dense outputs."""
    import tensorflow as tf

    if not isinstance(output, tf.Tensor) or not (output.dtype.is_floating or output.dtype.is_integer):
        return None
    flat = tf.reshape(output, [-1])
    step = max(1, -(-int(flat.shape[0]) // NUMBERS))
    return tf.cast(flat[::step], tf.float64).numpy()


def _tolerance(model: Any) -> float:
    import tensorflow as tf

    kinds = {layer.compute_dtype for layer in model._flatten_layers()}
    quantized = any(getattr(layer, "quantization_mode", None) for layer in model._flatten_layers())
    if kinds & {"float16", "bfloat16"} or quantized:
        return _HALF
    if tf.config.list_physical_devices("GPU"):
        return _TENSOR_FLOAT
    return _FLOAT64 if kinds == {"float64"} else _FLOAT32


# -- examples ----------------------------------------------------------------------------------------------------------


def _examples(model: Any, arrays: tuple[Any, Any, Any]) -> int:
    """Return the number of examples to use: fewer for large models, which are slow, and for large examples."""
    leaves = _leaves(arrays)
    size = sum(leaf[:1].nbytes for leaf in leaves)
    count = min(EXAMPLES, BYTES // max(size, 1), 1 + EXAMPLES * _LARGE_MODEL // max(model.count_params(), 1))
    fixed = {tensor.shape[0] for tensor in getattr(model, "inputs", None) or [] if tensor.shape and tensor.shape[0]}
    return int(fixed.pop()) if len(fixed) == 1 else max(1, count)


def _first(arrays: Any, count: int) -> Any:
    if isinstance(arrays, dict):
        return {key: _first(value, count) for key, value in arrays.items()}
    if isinstance(arrays, (list, tuple)):
        return tuple(_first(value, count) for value in arrays)
    return None if arrays is None else arrays[:count].copy()


def _leaves(arrays: Any) -> list[Any]:
    if isinstance(arrays, dict):
        return [leaf for value in arrays.values() for leaf in _leaves(value)]
    if isinstance(arrays, (list, tuple)):
        return [leaf for value in arrays for leaf in _leaves(value)]
    return [] if arrays is None else [arrays]


def _made_up(spec: Any) -> tuple[Any, Any, Any] | None:
    """Generate a small batch in place of one from a dataset, because reading another batch from it could have side
    effects. Return None if it would not be small.
    """
    random = np.random.default_rng(0)

    def made(leaf: Any) -> Any:
        if isinstance(leaf, dict):
            return {key: made(value) for key, value in leaf.items()}
        if isinstance(leaf, tuple):
            return tuple(made(value) for value in leaf)
        if leaf is None:
            return None
        shape = [leaf.shape[0] or 2, *(size or _UNKNOWN_SIZE for size in leaf.shape[1:])]
        if leaf.dtype == "string":
            return np.full(shape, "", object)
        if leaf.dtype in ("float16", "float32", "float64"):
            return random.normal(size=shape).astype(leaf.dtype)
        return np.zeros(shape, leaf.dtype)

    parts = spec if isinstance(spec, tuple) else (spec,)
    if not 1 <= len(parts) <= 3 or sum(np.prod([size or 1 for size in leaf.shape]) for leaf in _specs(spec)) > BYTES:
        return None
    x, y, sample_weight = (*(made(part) for part in parts), None, None)[:3]
    return x, y, sample_weight


def _specs(spec: Any) -> list[Any]:
    return _leaves(spec)


# -- comparison --------------------------------------------------------------------------------------------------------


def _compared(here: Answer, there: Answer) -> str:
    tolerance = max(here.tolerance, there.tolerance)
    if [a.shape for a in here.outputs] != [b.shape for b in there.outputs]:
        return f"it has {len(here.outputs)} outputs here, and their number or shapes differ"
    for number, (ours, theirs) in enumerate(zip(here.outputs, there.outputs, strict=True)):
        distance = _distance(ours, theirs, tolerance)
        if distance > tolerance:
            which = f"output {number}" if len(here.outputs) > 1 else "its output"
            loss = "" if here.loss is None else f", its loss {here.loss:.6g} here and {there.loss:.6g} there"
            return f"{which} differs by {distance:.2g} of its largest value{loss}"
    if here.loss is None or there.loss is None or _distance(here.loss, there.loss, tolerance) <= tolerance:
        return ""
    return f"its loss is {here.loss:.6g} here and was {there.loss:.6g} there, for the same outputs"


def _distance(ours: Any, theirs: Any, tolerance: float) -> float:
    """Return the largest difference relative to the largest value; infinite if only one side is not finite."""
    ours, theirs = np.atleast_1d(np.asarray(ours, float)), np.atleast_1d(np.asarray(theirs, float))
    finite = np.isfinite(ours) & np.isfinite(theirs)
    same = np.isfinite(ours) == np.isfinite(theirs)
    if not same.all() and tolerance < _HALF:  # half precision overflows early, on one device and not on another
        return float("inf")
    ours, theirs = ours[finite], theirs[finite]
    scale = max(np.max(np.abs(ours), initial=0.0), np.max(np.abs(theirs), initial=0.0), 1e-5)
    return float(np.max(np.abs(ours - theirs), initial=0.0) / scale)
