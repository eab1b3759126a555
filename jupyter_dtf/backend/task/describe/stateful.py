"""State that a model keeps of each example of a batch, for the next one: that of stateful RNNs."""

from __future__ import annotations

from typing import Any

import keras


def states(layer: Any) -> list[Any]:
    """The variables of a model, or of a layer, that have a row for each example. Keras does not count them as its."""
    return [
        state
        for each in layer._flatten_layers()
        if getattr(each, "stateful", False) and getattr(each, "states", None) is not None
        for state in keras.tree.flatten(each.states)
    ]


def examples(model: Any) -> int:
    """How many examples a model with such state takes at once; 1 for one without, which takes any number."""
    return max((int(state.shape[0]) for state in states(model)), default=1)
