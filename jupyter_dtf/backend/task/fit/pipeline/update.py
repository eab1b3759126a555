"""A Keras optimizer's own arithmetic as plain dataflow: values in, new values out.

Keras has ``stateless_apply`` for that, which refuses TensorFlow because its optimizers go through ``tf.distribute``.
Here what ``TFOptimizer`` overrides for it is put back to what every other backend does.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import keras
import tensorflow as tf
from keras.src.optimizers.base_optimizer import BaseOptimizer

from .....errors import InvalidInput
from ..hooks import hooked


def refuse_unsupported(optimizer: Any) -> None:
    """Raise InvalidInput for an optimizer that does more than update variables by their gradients."""
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise InvalidInput(
            f"A pipeline trains with a Keras optimizer. Received: optimizer={optimizer!r:.100}", field="model"
        )
    if hasattr(optimizer, "inner_optimizer"):
        raise InvalidInput(
            "A pipeline has no loss scaling: compile with auto_scale_loss=False, or use mixed_bfloat16, which needs "
            f"none. Received: {type(optimizer).__name__}",
            field="model",
        )
    if optimizer.gradient_accumulation_steps:
        raise InvalidInput(
            "A pipeline adds up the gradients of its microbatches: use a larger batch with more of them. Received: "
            f"gradient_accumulation_steps={optimizer.gradient_accumulation_steps}",
            field="model",
        )


def apply(optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any], scope: Any) -> None:
    """``optimizer.apply`` within a ``StatelessScope``, which must be entered: it has the new values afterwards."""
    with _functional(optimizer, variables, scope):
        optimizer.apply(list(gradients), list(variables))


def _functional(optimizer: Any, variables: Sequence[Any], scope: Any) -> AbstractContextManager[None]:
    def assign(variable: Any, value: Any) -> None:
        if isinstance(value, tf.IndexedSlices):
            value = tf.tensor_scatter_nd_update(variable.value, value.indices[:, None], value.values)
        variable.assign(value)

    def update(distribution: Any, pairs: Sequence[tuple[Any, Any]], learning_rate: Any) -> None:
        held = {id(scope.get_current_value(variable)): variable for variable in variables}  # Keras passes values around
        for gradient, value in pairs:
            optimizer.update_step(gradient, held[id(value)], learning_rate)

    def move_averages(trained: Sequence[Any]) -> None:
        BaseOptimizer._update_model_variables_moving_average(optimizer, trained)
        if frequency:
            is_due = (optimizer.iterations + 1) % frequency == 0
            for variable, average in zip(trained, optimizer._model_variables_moving_average, strict=True):
                variable.assign(tf.where(is_due, average.value, variable.value))

    frequency = optimizer.ema_overwrite_frequency if optimizer.use_ema else None
    return hooked(
        optimizer,
        assign=assign,
        assign_add=lambda variable, value: variable.assign(variable.value + _dense(value, variable)),
        assign_sub=lambda variable, value: variable.assign(variable.value - _dense(value, variable)),
        ema_overwrite_frequency=None,  # a condition, in which values could not be assigned
        _apply_weight_decay=partial(BaseOptimizer._apply_weight_decay, optimizer),
        _update_model_variables_moving_average=move_averages,
        _var_key=lambda variable: variable._value._unique_id,
        _all_reduce_sum_gradients=lambda pairs: pairs,
        _distributed_tf_update_step=update,
    )


def _dense(value: Any, variable: Any) -> tf.Tensor:
    return tf.cast(tf.convert_to_tensor(value), variable.dtype)
