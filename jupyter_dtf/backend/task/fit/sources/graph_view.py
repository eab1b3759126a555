"""Gives access to the graph of a ``tf.data.Dataset`` as TensorFlow serializes it: its datasets, and the functions that
they call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

# TensorFlow 2.21: the definitions of operations cannot be looked up in any other way.
from tensorflow.python.framework import op_def_registry

MAPS = frozenset({"MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2"})
BATCHES = frozenset({"BatchDataset", "BatchDatasetV2", "ParallelBatchDataset"})
SHUFFLES = frozenset(
    {"ShuffleDataset", "ShuffleDatasetV3", "ShuffleAndRepeatDataset", "ShuffleAndRepeatDatasetV2"}
)  # "ShuffleDatasetV2" has its seeds in a resource, and is not created by any function of TensorFlow 2
REPEATS = frozenset({"RepeatDataset", "ShuffleAndRepeatDataset", "ShuffleAndRepeatDatasetV2"})
OPAQUE = SHUFFLES | {
    "AssertCardinalityDataset",
    "CacheDataset",
    "CacheDatasetV2",
    "ModelDataset",
    "OptionsDataset",
    "PrefetchDataset",
    "RepeatDataset",
    "SkipDataset",
    "TakeDataset",
}
"""Dataset operations with one input dataset that do not change its elements, but may drop, repeat or reorder them."""
SEEDS = {
    **dict.fromkeys(SHUFFLES, (2, 3)),
    "RandomDataset": (0, 1),
    "RandomDatasetV2": (0, 1),
    "SamplingDataset": (2, 3),
}
"""The indices of the inputs that hold the seeds of a dataset operation. If both seeds are zero, the operation draws
different seeds each time.
"""
PYTHON = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
_NO_EFFECT = frozenset(
    {
        "Assert",
        "Case",
        "If",
        "LookupTableFind",
        "LookupTableFindV2",
        "LookupTableSizeV2",
        "PrintV2",
        "ReadVariableOp",
        "StatefulPartitionedCall",
        "VariableShape",
        "While",
    }
)


class GraphView:
    """A view of a GraphDef whose only ``_Retval`` is a dataset."""

    def __init__(self, serialized: bytes) -> None:
        self.graph = tf.compat.v1.GraphDef.FromString(serialized)
        self.nodes = {node.name: node for node in self.graph.node}
        self.functions = {function.signature.name: function for function in self.graph.library.function}
        self.end = next(node for node in self.graph.node if node.op == "_Retval")

    @property
    def output(self) -> Any:
        """The node of the dataset itself."""
        return self.input(self.end, 0)

    def input(self, node: Any, number: int) -> Any:
        return self.nodes[_name(node.input[number])]

    def inputs(self, node: Any) -> Iterator[Any]:
        return (self.nodes[_name(name)] for name in node.input)

    def value(self, node: Any, number: int) -> Any:
        """Return a constant input as an array, or None if the input is not constant."""
        fed = self.input(node, number)
        while fed.op == "Identity":
            fed = self.input(fed, 0)
        if fed.op != "Const" or fed.attr["dtype"].type == tf.resource.as_datatype_enum:
            return None
        return tf.make_ndarray(fed.attr["value"].tensor)

    def number(self, node: Any, number: int) -> int | None:
        value = self.value(node, number)
        return None if value is None or np.size(value) != 1 else int(value)

    def feed(self, node: Any, number: int, value: Any, dtype: Any) -> None:
        """Replace an input with a constant."""
        name = f"{node.name}/fed_{number}"
        added = self.graph.node.add(name=name, op="Const")
        added.attr["dtype"].type = tf.as_dtype(dtype).as_datatype_enum
        added.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype))
        self.nodes[name] = added
        node.input[number] = name

    def part(self, node: Any) -> Any:
        """Return a GraphDef that consists of a node and everything that the node depends on."""
        found: dict[str, Any] = {}
        waiting = [node]
        while waiting:
            now = waiting.pop()
            if now.name not in found:
                found[now.name] = now
                waiting += self.inputs(now)
        part = tf.compat.v1.GraphDef(versions=self.graph.versions, library=self.graph.library)
        part.node.extend(found.values())
        return part

    def calls(self, node: Any) -> list[Any]:
        """Return the operations of all functions that an operation calls, directly or through other functions."""
        found: dict[str, Any] = {}
        waiting = list(_called(node))
        while waiting:
            name = waiting.pop()
            if name in self.functions and name not in found:
                found[name] = self.functions[name]
                waiting += [called for inner in found[name].node_def for called in _called(inner)]
        return [inner for function in found.values() for inner in function.node_def]

    def rename_functions(self) -> None:
        """Give the functions names that are unique to this graph, because this process may already have functions with
        the original names.
        """
        digest = hashlib.blake2b(self.graph.SerializeToString(deterministic=True), digest_size=8).hexdigest()
        names = {name: f"passed_{digest}_{name}" for name in self.functions}
        for node in self.everything():
            node.op = names.get(node.op, node.op)
            for value in node.attr.values():
                for called in _functions(value):
                    called.name = names.get(called.name, called.name)
        for gradient in self.graph.library.gradient:
            gradient.function_name = names.get(gradient.function_name, gradient.function_name)
            gradient.gradient_func = names.get(gradient.gradient_func, gradient.gradient_func)
        for name, function in self.functions.items():
            function.signature.name = names[name]
        self.functions = {names[name]: function for name, function in self.functions.items()}

    def everything(self) -> Iterator[Any]:
        """Yield all operations, including those of functions."""
        yield from self.graph.node
        for function in self.graph.library.function:
            yield from function.node_def

    def datasets(self) -> list[Any]:
        """Return the dataset operations outside of functions."""
        return [node for node in self.graph.node if _is_dataset(node.op)]

    def repeats_a_shuffle(self) -> bool:
        """Return whether a dataset outside of functions shuffles, and a later one begins further passes over it."""
        return any(
            node.op in REPEATS and (node.op in SHUFFLES or any(below.op in SEEDS for below in self.part(node).node))
            for node in self.datasets()
        )

    def end_repeat(self, count: int) -> None:
        """End the last dataset that repeats others after as many elements as are necessary for ``count`` elements of
        the output, so that later operations, which may run in other threads, never read further. Nothing is changed if
        that number is not known.
        """
        node, reader = self.output, self.end
        while node.op in MAPS or node.op in BATCHES or node.op in ("PrefetchDataset", "OptionsDataset", "ModelDataset"):
            size = self.number(node, 1) if node.op in BATCHES else 1
            if size is None:
                return
            count *= size
            node, reader = self.input(node, 0), node
        if node.op not in REPEATS:
            return
        added = self.graph.node.add(name=f"{node.name}/ended", op="TakeDataset", input=[reader.input[0]])
        for name in ("output_types", "output_shapes"):
            added.attr[name].CopyFrom(node.attr[name])
        added.input.append("")
        self.nodes[added.name] = added
        self.feed(added, 1, count, tf.int64)
        reader.input[0] = added.name

    def of_values(self) -> list[tuple[Any, bool]]:
        """Return the maps that affect only the values of examples, not the selection of examples.

        Each map comes with a flag: whether its elements are single examples, which are batched later, instead of
        batches.
        """
        found: list[tuple[Any, bool]] = []
        waiting = [(self.output, False)]
        while waiting:
            node, by_example = waiting.pop()
            if node.op in MAPS:
                found.append((node, by_example))
            if node.op in MAPS or node.op in OPAQUE:
                waiting.append((self.input(node, 0), by_example))
            elif node.op in BATCHES or node.op == "PaddedBatchDatasetV2":
                waiting.append((self.input(node, 0), True))
            elif node.op in ("ZipDataset", "ConcatenateDataset"):
                waiting += [(inner, by_example) for inner in self.inputs(node)]
        return found


def is_random(node: Any) -> bool:
    """Return whether an operation draws from a random state of its own."""
    if node.op == "NonDeterministicInts":
        return True
    known = op_def_registry.get(node.op)
    names = {attribute.name for attribute in known.attr} if known is not None else set()
    return known is not None and known.is_stateful and {"seed", "seed2"} <= names


def is_seeded(node: Any) -> bool:
    """Return whether a random operation always draws the same numbers."""
    return bool(node.attr["seed"].i or node.attr["seed2"].i)


def changes_state(node: Any) -> bool:
    """Return whether an operation changes state that a later operation may use, such as a variable or a table."""
    if node.op in PYTHON or node.op in _NO_EFFECT or is_random(node) or _is_dataset(node.op):
        return False
    known = op_def_registry.get(node.op)
    return known is None or known.is_stateful


def _is_dataset(op: str) -> bool:
    known = op_def_registry.get(op)
    if known is None or len(known.output_arg) != 1 or "Dataset" not in op:
        return False
    return bool(known.output_arg[0].type == tf.variant.as_datatype_enum)


def _called(node: Any) -> Iterator[str]:
    yield node.op  # may be a function's name
    for value in node.attr.values():
        yield from (function.name for function in _functions(value))


def _functions(value: Any) -> Iterator[Any]:
    """Yield the functions named by the value of an attribute."""
    named = [value.func] if value.HasField("func") else list(value.list.func) if value.HasField("list") else []
    for function in named:
        yield function
        for inner in function.attr.values():
            yield from _functions(inner)


def _name(reference: str) -> str:
    return reference.lstrip("^").partition(":")[0]
