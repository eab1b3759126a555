"""What goes into a model that is described: its inputs by their names."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ....schema.graph import Input


def described_inputs(
    model: Any, example: Any, tensors: Sequence[tf.Tensor], targets: Sequence[list[str]]
) -> list[Input]:
    """The inputs of a Keras model that was called with ``example``, which were these tensors.

    ``targets``: of each the layers that take it.
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
    """What ``keras.Input`` made, in the order of the tensors; nothing of a model that was given shapes alone."""
    tensors = getattr(model, "inputs", None) or []
    structure = getattr(model, "_inputs_struct", None)
    return tf.nest.flatten(structure) if structure is not None else list(tensors)


def _names(example: Any, at: str) -> Iterator[str]:
    """The place of each tensor in the structure, ``image`` or ``pair[0]``, in the order of ``tf.nest.flatten``."""
    if isinstance(example, Mapping):
        for key in sorted(example):
            yield from _names(example[key], f"{at}/{key}" if at else str(key))
    elif isinstance(example, (list, tuple)):
        for number, part in enumerate(example):
            yield from _names(part, f"{at}[{number}]")
    else:
        yield at


def _name(place: str, argument: str, declared: Any) -> str:
    """A key of a dictionary, as the data has it; else what ``keras.Input`` was told, or where in the argument it is."""
    if place and not place.startswith("["):
        return place
    # The layer's name is kept in a file; that of its tensor is counted anew in every process if nobody gave one.
    return declared._keras_history.operation.name if declared is not None else f"{argument}{place}"


def _argument(model: Any) -> str:
    """What ``call`` names what it takes."""
    return next(iter(inspect.signature(model.call).parameters), "inputs")
