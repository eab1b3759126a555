"""The calls of a model's layers, by path, of any kind of model: functional, sequential, nested or subclassed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras


@contextmanager
def watched(
    model: Any, call: Callable[[str, Any, tuple[Any, ...], dict[str, Any], Callable[[], Any]], Any]
) -> Iterator[None]:
    """While this lasts, a call of the model or of a layer of it becomes ``call(path, layer, args, kwargs, proceed)``.

    ``path`` is empty for the model, ``encoder/dense_1`` for a layer; ``proceed()`` is the call as it would have been.
    What a composite layer of Keras's own calls within itself is not seen.
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
    """Whether what is inside is shown: models, and layers of the user's. A composite layer of Keras's is one node."""
    return isinstance(layer, keras.Model) or not type(layer).__module__.startswith("keras.")
