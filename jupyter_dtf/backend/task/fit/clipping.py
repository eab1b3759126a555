"""Warns of a custom ``train_step`` that clips gradients itself, because it clips those of a share of the batch.

The check of the first step does not see it if the gradients are small at first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from .gradient_sync import optimizers_of
from .own_parts import has_own_train_step

_CLIPS = re.compile(r"(^|/)clip_by_(value|norm|global_norm|average_norm)")
"""The names of the operations of ``tf.clip_by_value`` and similar functions, which ``keras.ops.clip`` uses as well."""
_TAPE = "gradient_tape/"
"""The prefix of the operations that compute gradients."""
_MOST_BETWEEN = 2
"""The largest number of operations between a gradient and its clipping."""


def watched(model: Any, ctx: Any) -> Callable[[Any], Any]:
    """Return the model's ``train_step``, which reports a warning on the chief if it is custom and clips gradients.

    Operations are inspected when the step is traced, so nothing is found with ``run_eagerly=True``.
    """
    step: Callable[[Any], Any] = model.train_step
    if not has_own_train_step(model) or not ctx.is_chief:
        return step
    has_told = False

    def train_step(data: Any) -> Any:
        nonlocal has_told
        outputs = step(data)
        if not tf.executing_eagerly() and not has_told and (name := clipping_in(model)):
            has_told = True
            ctx.note(
                "warning",
                "Gradients are clipped before they are averaged",
                f"train_step of {type(model).__name__} clips gradients ({name}). Each task clips the gradients of its "
                "own share of the batch; one process clips those of the whole batch, so the model trains differently "
                "whenever a gradient is clipped. Use the optimizer's clipnorm, clipvalue or global_clipnorm instead",
            )
        return outputs

    return train_step


def clipping_in(model: Any) -> str:
    """Return the name of the first operation of the default graph, into which the step of ``model`` has been traced,
    that clips a gradient; empty if there is none. Optimizers clip the averaged gradients.
    """
    of_optimizers = re.compile(f"(^|/)({'|'.join(re.escape(each.name) for each in optimizers_of(model))})(_\\d+)*/")
    for operation in tf.compat.v1.get_default_graph().get_operations():
        if operation.name.startswith(_TAPE):
            continue
        found = _CLIPS.search(operation.name)
        if found and not of_optimizers.search(operation.name) and _takes_gradient(operation, _MOST_BETWEEN):
            return found[0].strip("/")
    return ""


def _takes_gradient(operation: Any, most_between: int) -> bool:
    for value in operation.inputs:
        if value.op.name.startswith(_TAPE):
            return True
        if most_between and _takes_gradient(value.op, most_between - 1):
            return True
    return False
