"""Remembers which weights of a model were trained, to tell of those that were frozen without compiling again."""

from __future__ import annotations

import warnings
from typing import Any
from weakref import WeakKeyDictionary

_trained: WeakKeyDictionary[Any, tuple[Any, list[int]]] = WeakKeyDictionary()
"""For each trained model, the arguments of ``compile`` and the ids of its trainable weights."""


def remember(model: Any) -> None:
    """Record which weights a run has trained."""
    _trained[model] = (model._compile_config, [id(weight) for weight in model.trainable_weights])


def warn_of_changes(model: Any) -> None:
    """Warn if other weights are trainable than in the last run, although the model has not been compiled since.

    Keras keeps the step that it has traced, so that the change has no effect in one process. Every run traces anew.
    """
    config, weights = _trained.get(model, (None, []))
    if config is None or config is not model._compile_config:
        return
    if weights != [id(weight) for weight in model.trainable_weights]:
        warnings.warn(
            "Which weights are trainable has changed since the last fit, but the model was not compiled again. The "
            "tasks train the weights that are trainable now; Keras, in one process, would train the same ones as "
            "before. Call model.compile(...) after changing `trainable`",
            stacklevel=5,
        )
