"""Divides a dataset before its maps are applied, so that each task maps only the examples of its shares.

If a dataset ends with ``source, map ..., batch``, the elements of ``source`` are read in blocks of the batch size. Each
task takes its share of every block (every n-th example, if batches divide evenly), and maps only these examples.
Operations that do not change elements (a shuffle, a repeat) may occur among the maps, because they work in the same way
on unmapped elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

# TensorFlow 2.21: the definitions of operations cannot be looked up in any other way.
from tensorflow.python.framework import op_def_registry

from .base import Share
from .graph_import import dataset_at
from .graph_view import BATCHES, MAPS, OPAQUE, SEEDS, GraphView, changes_state, is_random, is_seeded

_MOST_BATCH = 1 << 16
"""A dataset is divided before its maps are applied only if its batches have at most this many examples. The limit
exists because the shares of all possible partial batches are checked one by one.
"""


@dataclass
class Chain:
    """The last operations of a dataset, in order from the last to the first."""

    after: list[Any]
    """The operations after batching, which do not change the batches."""
    batch: Any
    size: int
    """The number of examples in a batch."""
    drops: bool
    """Whether a smaller last batch is dropped."""
    before: list[Any]
    """The maps and the operations between them. The last item, if any, is a map."""
    root: Any
    """The node of the dataset that the maps read."""

    @property
    def maps(self) -> list[Any]:
        return [node for node in self.before if node.op in MAPS]


def chain_of(view: GraphView) -> Chain | None:
    """Return the last operations of a dataset, or None unless the dataset makes batches of one size and does not change
    them afterwards.
    """
    node, after, before = view.output, [], []
    while node.op in OPAQUE:
        after.append(node)
        node = view.input(node, 0)
    if node.op not in BATCHES:
        return None
    batch, size = node, view.number(node, 1)
    drops = False if node.op == "BatchDataset" else view.value(node, len(node.input) - 1)
    if size is None or drops is None or size < 1:
        return None
    node = view.input(batch, 0)
    while _is_movable(view, node):
        before.append(node)
        node = view.input(node, 0)
    while before and before[-1].op not in MAPS:
        node = before.pop()
    return Chain(after, batch, size, bool(drops), before, node)


def _is_movable(view: GraphView, node: Any) -> bool:
    if node.op not in MAPS:
        if node.op == "RepeatDataset" and not _is_endless(view, node) and _shuffles(view, node):
            return False  # how often the earlier shuffles draw depends on the operations in between
        return node.op in OPAQUE and not node.op.startswith("Cache")  # a cache keeps mapped elements
    if "preserve_cardinality" in node.attr and not node.attr["preserve_cardinality"].b:
        return False
    return not any(changes_state(inner) or (is_random(inner) and is_seeded(inner)) for inner in view.calls(node))


def _is_endless(view: GraphView, node: Any) -> bool:
    count = view.number(node, 1)
    return count is not None and count < 0


def _shuffles(view: GraphView, node: Any) -> bool:
    return any(below.op in SEEDS for below in view.part(node).node)


def windowed(
    view: GraphView, chain: Chain, share: Share, spec: Any, feeds: dict[str, Any]
) -> tuple[tf.data.Dataset, bool] | None:
    """Return a pair: a dataset of this task's shares of the batches, which does not compute the other tasks' shares;
    and whether a share consists of every n-th example instead of consecutive examples. Return None if such a dataset
    cannot be made.

    ``view`` must not be used afterwards.
    """
    columns = _columns(chain.root)
    if not chain.maps or share.size == 1 or columns is None or chain.size > _MOST_BATCH:
        return None
    if not all(isinstance(leaf, tf.TensorSpec) for leaf in tf.nest.flatten(spec)):
        return None
    own = _count(share, chain.size)
    if any(_count(share, rest) > max(1, own) for rest in range(chain.size)):
        return None
    draws = _shuffles(view, view.output)
    top = _moved(view, chain)
    elements = dataset_at(view, top, tuple(columns), feeds)
    rests = {chain.size} if chain.drops else {chain.size, *_rests(elements, chain.size)}
    flagged = any(not _count(share, count) for count in rests)

    @tf.autograph.experimental.do_not_convert
    def own_part(*block: tf.Tensor) -> Any:
        low, high = share.bounds(tf.shape(block[0])[0])
        if not flagged:
            return tuple(column[low:high] for column in block)
        is_empty = tf.equal(low, high)
        low, high = (
            tf.where(is_empty, 0, low),
            tf.where(is_empty, 1, high),
        )  # an empty share computes with one example, which is dropped later
        flags = tf.fill([high - low], tf.logical_not(is_empty))
        return (flags, *(column[low:high] for column in block))

    parts = None if min(rests) < share.size else _strided(elements, chain, share, draws=draws)
    is_strided = parts is not None
    if parts is None:
        parts = elements.batch(chain.size, drop_remainder=chain.drops).map(own_part).unbatch()
    output = _rebuilt(view, chain, top.name, max(1, own), flagged)
    spec = tf.nest.map_structure(_of_any_size, spec)
    whole_spec = (tf.TensorSpec([None], tf.bool), spec) if flagged else spec
    dataset = dataset_at(view, output, whole_spec, {**feeds, top.name: parts._variant_tensor})
    dataset._input_of_passed = parts  # keeps the functions of ``parts`` alive
    if not flagged:
        return dataset, is_strided

    @tf.autograph.experimental.do_not_convert
    def unflagged(flags: tf.Tensor, batch: Any) -> Any:
        count = tf.where(flags[0], tf.shape(flags)[0], 0)
        return tf.nest.map_structure(lambda leaf: None if leaf is None else leaf[:count], batch)

    return dataset.map(unflagged), False


def _strided(elements: tf.data.Dataset, chain: Chain, share: Share, *, draws: bool) -> tf.data.Dataset | None:
    """Return a dataset of every n-th element, made without copies, or None if batches cannot be divided evenly.

    A share then contains different examples than a consecutive part of the batch, but the same number of them. The
    result of a step does not depend on which examples a task has.
    """
    if chain.size % share.size:
        return None
    if chain.drops:
        count = int(elements.cardinality())
        if count == tf.data.UNKNOWN_CARDINALITY:
            return None  # a partial batch may fill the share of only some tasks
        if count >= 0 and count % chain.size:
            if draws:
                return None  # one process would read all elements, so an earlier repeat would draw once more
            elements = elements.take(count - count % chain.size)
    return elements.shard(share.size, share.rank)


def _of_any_size(leaf: tf.TensorSpec) -> tf.TensorSpec:
    return tf.TensorSpec([None, *leaf.shape[1:]] if leaf.shape.rank else None, leaf.dtype)


def _count(share: Share, examples: int) -> int:
    low, high = share.bounds(examples)
    return int(high - low)


def _rests(elements: tf.data.Dataset, size: int) -> list[int]:
    """Return the possible sizes of a partial last batch; empty if all batches are full."""
    count = int(elements.cardinality())
    if count == tf.data.INFINITE_CARDINALITY:
        return []
    if count == tf.data.UNKNOWN_CARDINALITY:
        return list(range(1, size))
    return [count % size] if count % size else []


def _columns(root: Any) -> list[tf.TensorSpec] | None:
    """Return the specs of the components of the root's elements, or None unless each component has a fixed shape."""
    types = root.attr["output_types" if "output_types" in root.attr else "Toutput_types"].list.type
    shapes = [tf.TensorShape(shape) for shape in root.attr["output_shapes"].list.shape]
    known = all(shape.is_fully_defined() for shape in shapes)
    special = {tf.variant.as_datatype_enum, tf.resource.as_datatype_enum}
    if not types or len(types) != len(shapes) or not known or special & set(types):
        return None
    return [tf.TensorSpec(shape, tf.as_dtype(kind)) for shape, kind in zip(shapes, types, strict=True)]


def _moved(view: GraphView, chain: Chain) -> Any:
    """Make the operations that keep elements unchanged precede the maps. Return the node that the first map reads."""
    top = chain.root
    for node in reversed(chain.before):
        if node.op in MAPS:
            continue
        node.input[0] = top.name
        _give_types(node, chain.root)
        top = node
    return top


def _give_types(node: Any, like: Any) -> None:
    types = like.attr["output_types" if "output_types" in like.attr else "Toutput_types"]
    name = "output_types" if "output_types" in _attributes(node.op) else "Toutput_types"
    node.attr[name].CopyFrom(types)
    node.attr["output_shapes"].CopyFrom(like.attr["output_shapes"])


def _attributes(op: str) -> set[str]:
    return {attribute.name for attribute in op_def_registry.get(op).attr}


def _rebuilt(view: GraphView, chain: Chain, top: str, own: int, flagged: bool) -> Any:
    """Replace node ``top`` with a placeholder, make the maps read from it, and make the batching operation combine
    ``own`` mapped elements. Return the output node.
    """
    fed = view.nodes[top]
    fed.Clear()
    fed.name, fed.op = top, "Placeholder"
    fed.attr["dtype"].type = tf.variant.as_datatype_enum
    last = top
    for node in reversed(chain.maps):
        node.input[0] = last
        if flagged:
            _flag(view, node)
        last = node.name
    chain.batch.input[0] = last
    view.feed(chain.batch, 1, np.int64(own), tf.int64)
    for node in (chain.batch, *chain.after):
        for shape in node.attr["output_shapes"].list.shape:
            if shape.dim:
                shape.dim[0].size = -1
        if flagged:
            _prepend(node, [-1])
    if chain.batch.op != "BatchDataset":
        view.feed(chain.batch, len(chain.batch.input) - 1, False, tf.bool)
    return view.output


def _flag(view: GraphView, node: Any) -> None:
    """Make a map accept a flag in addition to its inputs, and output the flag unchanged."""
    name = f"{node.attr['f'].func.name}_flagged"
    if name not in view.functions:
        function = view.graph.library.function.add()
        function.CopyFrom(view.functions[node.attr["f"].func.name])
        function.signature.name = name
        for arguments in (function.signature.input_arg, function.signature.output_arg):
            kept = [type(argument).FromString(argument.SerializeToString()) for argument in arguments]
            del arguments[:]
            arguments.add(name="flag_of_share", type=tf.bool.as_datatype_enum)
            arguments.extend(kept)
        function.ret["flag_of_share"] = "flag_of_share"
        for table in (function.arg_attr, function.resource_arg_unique_id):
            _shift(table)
        view.functions[name] = function
    node.attr["f"].func.name = name
    _prepend(node, [])


def _shift(table: Any) -> None:
    """Increment the indices in a table of arguments, because a new first argument is inserted."""
    plain = {key: table[key] for key in list(table)}
    copies = {
        key: value if isinstance(value, int) else type(value).FromString(value.SerializeToString())
        for key, value in plain.items()
    }
    table.clear()
    for key, value in copies.items():
        if isinstance(value, int):
            table[key + 1] = value
        else:
            table[key + 1].CopyFrom(value)


def _prepend(node: Any, shape: list[int]) -> None:
    types = node.attr["output_types" if "output_types" in node.attr else "Toutput_types"].list.type
    types.insert(0, tf.bool.as_datatype_enum)
    shapes = node.attr["output_shapes"].list.shape
    kept = [type(one).FromString(one.SerializeToString()) for one in shapes]
    del shapes[:]
    shapes.add().CopyFrom(tf.TensorShape([None if n < 0 else n for n in shape]).as_proto())
    shapes.extend(kept)
