"""Interception of calls to a model's layers, for any kind of model: functional, sequential, nested, subclassed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras


@contextmanager
def watched(
    model: Any, call: Callable[[str, Any, tuple[Any, ...], dict[str, Any], Callable[[], Any]], Any]
) -> Iterator[None]:
    """Within the block, replace calls to the model and its layers with ``call(path, layer, args, kwargs, proceed)``.

    ``path`` is empty for the model and ``encoder/dense_1`` for a layer; ``proceed()`` makes the original call. Calls
    within Keras's own composite layers are not intercepted.
    """
    own = {id(layer) for layer in model._flatten_layers()}
    original = keras.layers.Layer.__call__
    stack: list[tuple[str, Any]] = []

    def replaced(layer: Any, *args: Any, **kwargs: Any) -> Any:
        if id(layer) not in own or (stack and not opens(stack[-1][1])):
            return original(layer, *args, **kwargs)
        path = f"{stack[-1][0]}/{layer.name}".lstrip("/") if stack else ""
        stack.append((path, layer))
        try:
            return call(path, layer, args, kwargs, lambda: original(layer, *args, **kwargs))
        finally:
            stack.pop()

    keras.layers.Layer.__call__ = replaced
    try:
        yield
    finally:
        keras.layers.Layer.__call__ = original


def opens(layer: Any) -> bool:
    """Return whether a layer's sublayers are shown. Only those of models and of the user's own layers are shown."""
    return isinstance(layer, keras.Model) or not type(layer).__module__.startswith("keras.")
