"""State that a model keeps per example from one batch to the next, as in stateful RNNs."""

from __future__ import annotations

from typing import Any

import keras


def states(layer: Any) -> list[Any]:
    """Return the variables of a model or layer that have one row per example. Keras does not track these variables."""
    return [
        state
        for each in layer._flatten_layers()
        if getattr(each, "stateful", False) and getattr(each, "states", None) is not None
        for state in keras.tree.flatten(each.states)
    ]


def examples(model: Any) -> int:
    """Return the batch size of a model with such state; 1 for other models, which accept any size."""
    return max((int(state.shape[0]) for state in states(model)), default=1)
