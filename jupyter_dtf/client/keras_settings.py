"""Reads the global settings of Keras and TensorFlow that the user has made in this process."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from ..backend.task import determinism

_OF_CALLER = 5
"""The stack level of the call of ``Cluster.fit`` or ``predict`` for ``limited``: ``prepare`` and a decorated method are
in between.
"""


def limited(epochs: int, *steps: int | None) -> tuple[Any, ...]:
    """Return ``epochs`` and ``steps``, reduced to the global limits of Keras if the user has set any."""
    most = _limit("max_epochs")
    if most and most < epochs:
        warnings.warn(f"Limiting epochs to {most}", stacklevel=_OF_CALLER)
        epochs = most
    most = _limit("max_steps_per_epoch")
    few = tuple(most if most and (count is None or most < count) else count for count in steps)
    if few != steps:
        warnings.warn(f"Limiting steps_per_epoch to {most}", stacklevel=_OF_CALLER)
    return epochs, *few


def _limit(name: str) -> int | None:
    """Return a global limit of Keras, ``max_epochs`` or ``max_steps_per_epoch``; None if the user has not set it."""
    keras = sys.modules.get("keras")
    if keras is not None:
        return getattr(keras.config, name, lambda: None)()  # from Keras 3.11 on
    given = os.environ.get(f"KERAS_{name.upper()}", "")  # Keras reads the variable when it is imported
    return int(given) if given.isdecimal() else None


def keras_settings() -> dict[str, Any]:
    """Return Keras's settings, for ``configure_keras`` to apply in the tasks; empty if Keras has not been imported."""
    keras = sys.modules.get("keras")
    if keras is None:
        return {}
    return {
        "flash_attention": keras.config.is_flash_attention_enabled(),
        "floatx": keras.config.floatx(),
        "image_data_format": keras.config.image_data_format(),
        "dtype_policy": keras.config.dtype_policy().name,
        "epsilon": keras.config.epsilon(),
        "op_determinism": determinism.is_enabled(),
    }
