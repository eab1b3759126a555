"""The named inputs of a described model."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ....schema.graph import Input


def described_inputs(
    model: Any, example: Any, tensors: Sequence[tf.Tensor], targets: Sequence[list[str]]
) -> list[Input]:
    """Return the inputs of a Keras model.

    Args:
        model: The model.
        example: The structure that the model was called with.
        tensors: The tensors in that structure.
        targets: For each tensor, the layers that use it.
    """
    declared = _declared(model)
    names = list(_names(example, ""))
    argument = _argument(model)
    return [
        Input(
            name=_name(name, argument, declared[number] if declared else None),
            shape=list(tensor.shape),
            dtype=str(declared[number].dtype) if declared else "",
            targets=taken,
        )
        for number, (name, tensor, taken) in enumerate(zip(names, tensors, targets, strict=True))
    ]


def _declared(model: Any) -> list[Any]:
    """Return the model's ``keras.Input`` tensors in order, or an empty list for a model built from shapes."""
    tensors = getattr(model, "inputs", None) or []
    structure = getattr(model, "_inputs_struct", None)
    return tf.nest.flatten(structure) if structure is not None else list(tensors)


def _names(example: Any, at: str) -> Iterator[str]:
    """Yield the path of each tensor in ``example``, such as ``image`` or ``pair[0]``, in ``tf.nest.flatten`` order."""
    if isinstance(example, Mapping):
        for key in sorted(example):
            yield from _names(example[key], f"{at}/{key}" if at else str(key))
    elif isinstance(example, (list, tuple)):
        for number, part in enumerate(example):
            yield from _names(part, f"{at}[{number}]")
    else:
        yield at


def _name(place: str, argument: str, declared: Any) -> str:
    """Return the name of an input: its dict key in the data if it has one; otherwise the name of its ``keras.Input``,
    or else its path in the argument.
    """
    if place and not place.startswith("["):
        return place
    # The layer's name is saved in files. The tensor's default name depends on a counter of the process.
    return declared._keras_history.operation.name if declared is not None else f"{argument}{place}"


def _argument(model: Any) -> str:
    """Return the name of ``call``'s first parameter."""
    return next(iter(inspect.signature(model.call).parameters), "inputs")
