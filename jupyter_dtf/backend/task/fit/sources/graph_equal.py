"""Makes a dataset's graph compute the same values in every task, by setting missing seeds and making orders
deterministic.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import tensorflow as tf

from .graph_view import PYTHON, SEEDS, GraphView, changes_state, is_random


def make_equal(view: GraphView, seed: int) -> None:
    """Change a graph so that the order of each pass is the same in all tasks. The order is drawn from ``seed`` if the
    caller has not set a seed.
    """
    _own_resources(view)
    _seed_datasets(view, seed)
    for function in view.graph.library.function:
        _seed_function(function, seed)
    of_values = {node.name: single for node, single in view.of_values()}
    for node in view.datasets():
        parallel = node.op.startswith(("ParallelMap", "ParallelInterleaveDatasetV"))
        single = of_values.get(node.name, False)
        if parallel and not single and any(is_random(inner) or changes_state(inner) for inner in view.calls(node)):
            view.feed(node, len(node.input) - 1, np.int64(1), tf.int64)  # random numbers depend on the order of calls
    for node in view.everything():
        if "deterministic" in node.attr and node.attr["deterministic"].s == b"false":
            node.attr["deterministic"].s = b"true"
        if "sloppy" in node.attr:
            node.attr["sloppy"].b = False


def in_order() -> tf.data.Options:
    """Return options that make the order of a dataset's elements independent of timing."""
    options = tf.data.Options()
    options.deterministic = True
    return options


def has_state(view: GraphView) -> bool:
    """Return whether a second pass over the dataset may yield values that differ from those of the first pass."""
    calls = [inner for node in view.datasets() for inner in view.calls(node)]
    return any(inner.op in PYTHON or is_random(inner) or changes_state(inner) for inner in calls)


def _own_resources(view: GraphView) -> None:
    """Give each dataset its own resources.

    The handles in the graph name resources of another process. If resources with these names existed in this process,
    several datasets could share one.
    """
    for node in view.datasets():
        dummy = "DummyMemoryCache" if node.op == "CacheDatasetV2" else "DummySeedGenerator"
        for number, inner in enumerate(list(view.inputs(node))):
            if inner.op == "Const" and inner.attr["dtype"].type == tf.resource.as_datatype_enum:
                name = f"{node.name}/{dummy}"
                if name not in view.nodes:
                    view.nodes[name] = view.graph.node.add(name=name, op=dummy)
                node.input[number] = name


def _seed_datasets(view: GraphView, seed: int) -> None:
    for node in view.datasets():
        if node.op not in SEEDS:
            continue
        places = SEEDS[node.op]
        if all(view.number(node, place) == 0 for place in places):
            for place, value in zip(places, _drawn(seed, node.name), strict=True):
                view.feed(node, place, value, tf.int64)


def _seed_function(function: Any, seed: int) -> None:
    """Set the seeds of the datasets that a function creates. All datasets created by the same operation have the same
    order.
    """
    nodes = {node.name: node for node in function.node_def}
    for node in list(nodes.values()):
        if node.op not in SEEDS:
            continue
        places = SEEDS[node.op]
        fed = [nodes.get(node.input[place].partition(":")[0]) for place in places]
        if not all(n is not None and n.op == "Const" and _is_zero(n) for n in fed):
            continue
        for place, value in zip(places, _drawn(seed, f"{function.signature.name}/{node.name}"), strict=True):
            name = f"{node.name}_fed_{place}"
            added = function.node_def.add(name=name, op="Const")
            added.attr["dtype"].type = tf.int64.as_datatype_enum
            added.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.int64))
            node.input[place] = f"{name}:output:0"


def _is_zero(node: Any) -> bool:
    return not np.any(tf.make_ndarray(node.attr["value"].tensor))


def _drawn(seed: int, name: str) -> tuple[int, int]:
    """Return two nonzero seeds, derived from ``seed`` and ``name`` alone, so that they are the same in all
    processes.
    """
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    return tuple(int.from_bytes(part, "little") >> 1 | 1 for part in (digest[:4], digest[4:]))  # type: ignore[return-value]
