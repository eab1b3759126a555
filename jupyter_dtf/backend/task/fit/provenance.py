"""Determines which tensors of a step depend on the batch, by following the step's graph back to the batch's tensors.

For every tensor on the way, it derives from the tensor's operation whether its values depend on the examples or their
number, and which of its extents depend on them (``provenance_rules``).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import tensorflow as tf

from .provenance_rules import Fact, constant, none_of, outcomes


class Sharing(Enum):
    """How many rows one process has for the rows that tasks look up, each for its own share of a batch."""

    NONE = 0
    """As many as all tasks together: one for each example, for instance."""
    BY_POSITION = 1
    """As many as one task: all tasks look up the same rows in the same order, because these do not depend on the batch.
    """
    BY_INDEX = 2
    """One for each index: those in a batch are looked up once each, however many examples contain them."""


class Provenance:
    """Derives facts about a step's tensors. ``data``: the batch, whose first dimension is the number of examples."""

    def __init__(self, data: Any) -> None:
        self._facts: dict[int, Fact] = {}
        self._kept: list[Any] = []  # keeps the tensors alive, so that their ids are not reused
        for leaf in tf.nest.flatten(data):
            if isinstance(leaf, tf.Tensor):
                extents = tuple(i == 0 for i in range(leaf.shape.rank)) if leaf.shape.rank is not None else None
                self._set(leaf, Fact(True, extents))
            else:
                for part in tf.nest.flatten(leaf, expand_composites=True):
                    if part is not None:
                        self._set(part, Fact(True))

    def parts(self, indices: tf.Tensor) -> list[tuple[tf.Tensor, Sharing]]:
        """Return the tensors that were concatenated to form ``indices``, one for each lookup, and their sharing."""
        return [(part, self._sharing(part)) for part in _parts(indices)]

    def _sharing(self, indices: tf.Tensor) -> Sharing:
        if not self.of(indices).depends:
            return Sharing.BY_POSITION
        return Sharing.BY_INDEX if are_distinct(indices) else Sharing.NONE

    def of(self, tensor: Any) -> Fact:
        """Return the fact about a tensor."""
        waiting = [tensor]
        while waiting:
            last = waiting[-1]
            if id(last) in self._facts:
                waiting.pop()
                continue
            needed = self._origins(last)
            missing = [t for t in needed if id(t) not in self._facts]
            if missing and len(waiting) < 1_000_000:
                waiting.extend(missing)
                continue
            waiting.pop()
            self._conclude(last)
        return self._facts[id(tensor)]

    def _set(self, tensor: Any, fact: Fact) -> None:
        self._kept.append(tensor)
        self._facts[id(tensor)] = fact

    def _origins(self, tensor: Any) -> Sequence[Any]:
        """Return the tensors that ``tensor`` is computed from, or the outer tensor that a function captures as
        ``tensor``.
        """
        op = _operation(tensor)
        if op is None:
            return ()
        if op.type == "Placeholder":
            outer = captured(tensor)
            return () if outer is None else (outer,)
        return tuple(op.inputs)

    def _conclude(self, tensor: Any) -> None:
        op = _operation(tensor)
        if op is None:  # an eager tensor: a constant or a variable
            self._set(tensor, Fact(False, none_of(tensor)))
            return
        if op.type == "Placeholder":
            outer = captured(tensor)
            self._set(tensor, Fact(True) if outer is None else self._facts[id(outer)])
            return
        outcomes = self._outcomes(op)
        for output, fact in zip(op.outputs, outcomes, strict=True):
            if id(output) not in self._facts:
                self._set(output, _known_extents(output, fact))

    def _outcomes(self, op: Any) -> list[Fact]:
        inputs = [self._facts[id(t)] for t in op.inputs]
        if op.type in ("PartitionedCall", "StatefulPartitionedCall"):
            inside = self._inside(op, inputs)
            if inside is not None:
                return inside
        return outcomes(op, inputs)

    def _inside(self, op: Any, inputs: Sequence[Fact]) -> list[Fact] | None:
        """Return the facts about the outputs of a call, derived from the graph of the called function, or None if there
        is no graph that matches the call.
        """
        try:
            graph = op.graph._get_function(op.get_attr("f").name).graph
            arguments, results = graph.inputs, graph.outputs
        except (AttributeError, KeyError, ValueError):
            return None
        if len(arguments) != len(inputs) or len(results) != len(op.outputs):
            return None
        inner = Provenance(None)
        for argument, fact in zip(arguments, inputs, strict=True):
            inner._set(argument, fact)
        return [inner.of(result) for result in results]


def are_distinct(indices: Any) -> bool:
    """Return whether a lookup's indices are distinct because duplicates in the batch have been removed.

    This is how rows of sparse inputs are looked up.
    """
    tensors = _parts(indices)
    tensor: Any = tensors[0] if len(tensors) == 1 else None
    op = None if tensor is None else _operation(tensor)
    while op is not None:
        if op.type in _UNIQUE:
            return bool(tensor.value_index == 0)
        if op.type == "Placeholder":
            tensor = captured(tensor)
        elif op.type in ("PartitionedCall", "StatefulPartitionedCall"):
            try:
                tensor = op.graph._get_function(op.get_attr("f").name).graph.outputs[tensor.value_index]
            except (AttributeError, IndexError, KeyError, ValueError):
                return False
        elif op.type in _KEEPS_DISTINCT and tensor.value_index == 0:
            tensor = op.inputs[0]
        elif op.type in ("AddV2", "Sub"):
            many = [operand for operand in op.inputs if operand.shape.rank != 0]
            tensor = many[0] if len(many) == 1 else None
        else:
            return False
        op = None if tensor is None else _operation(tensor)
    return False


_UNIQUE = ("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")
_KEEPS_DISTINCT = ("Cast", "Identity", "StopGradient", "Reshape", "Neg", "ReverseV2", "TopKV2")
"""Operations whose first output has distinct elements if the first input has."""


def captured(placeholder: Any) -> Any:
    """Return the outer tensor that a function captures as this input, or None if the tensor is not a captured input."""
    if isinstance(placeholder, tf.__internal__.EagerTensor) or placeholder.op.type != "Placeholder":
        return None
    captures = getattr(placeholder.graph, "captures", ())
    return next((outer for outer, inner in captures if inner is placeholder), None)


def _operation(tensor: Any) -> Any:
    return None if isinstance(tensor, tf.__internal__.EagerTensor) else tensor.op


def _parts(tensor: tf.Tensor) -> list[tf.Tensor]:
    """Return the tensors that were concatenated along the first dimension to form ``tensor``. Casts and flattening are
    ignored.
    """
    op = _operation(tensor)
    while op is not None:
        if op.type == "ConcatV2" and constant(op.inputs[-1]) == 0:
            return [part for each in op.inputs[:-1] for part in _parts(each)]
        if op.type in ("Cast", "Identity", "StopGradient") or (op.type == "Reshape" and tensor.shape.rank == 1):
            tensor = op.inputs[0]
        elif op.type == "SelectV2" and op.inputs[2].shape.rank == tensor.shape.rank:  # negative indices made positive
            tensor = op.inputs[2]
        else:
            break
        op = _operation(tensor)
    return [tensor]


def _known_extents(tensor: Any, fact: Fact) -> Fact:
    """Return ``fact``, refined by the tensor's static shape: a known extent does not depend on the batch."""
    shape = tensor.shape
    if shape.rank is None:
        return Fact(fact.values, None)
    extents = fact.extents
    if extents is None or len(extents) != shape.rank:
        extents = (True,) * shape.rank
    extents = tuple(flag and size is None for flag, size in zip(extents, shape.as_list(), strict=True))
    elements = fact.elements if shape.rank == 1 and fact.elements and shape[0] == len(fact.elements) else None
    return Fact(fact.values, extents, elements)
