"""Opens a passed dataset in a task: creates the dataset from its graph, in the same way in all tasks, and divides it
among the tasks.
"""

from __future__ import annotations

import os
import socket
from typing import Any

import tensorflow as tf

# TensorFlow 2.21: the registry of functions of tf.py_function is not public.
from tensorflow.python.ops import script_ops

from .....errors import InvalidInput
from ..mapped_tensor import tensor_of
from .base import Opened, Reading, Share
from .graph_equal import has_state, in_order, make_equal
from .graph_import import dataset_at
from .graph_view import PYTHON, SHUFFLES, GraphView
from .graph_windows import Chain, chain_of, windowed
from .passed_graph import PassedGraph
from .passes import Passes

_KEPT: list[Any] = []
"""The Python functions that graphs call. They are kept alive here, because TensorFlow does not keep them alive."""
_MOST_FIRST = 10_000
"""The largest size of a shuffle buffer, in elements, for which reading the first batches a second time is cheap
enough.
"""


def opened(source: PassedGraph, ctx: Any, reading: Reading) -> Opened:
    """Open a passed dataset in a task. Raises InvalidInput for missing files."""
    _check_files(source, ctx, reading.field)
    view = GraphView(source.graph)
    _register(view, source.functions)
    make_equal(view, reading.own_seed)
    view.rename_functions()
    graph = view.graph.SerializeToString()
    with tf.device("/device:CPU:0"):
        feeds = {name: tensor_of(array) for name, array in source.constants.items()}
    most = _read_in_all(view, reading) if reading.share.size > 1 else None
    if most is not None:
        view.end_repeat(most)
    limited = view.graph.SerializeToString()
    chain = chain_of(view)
    smallest = _smallest(view, chain, source.spec, feeds)
    divided = windowed(view, chain, reading.share, source.spec, feeds) if chain is not None else None
    whole = divided is None
    parts, strided = divided or (_whole(GraphView(limited), source.spec, feeds), False)
    kept = parts
    if whole and reading.share.size > 1:
        parts = parts.map(_own_part(reading.share, isinstance(source.spec, tuple)))
    if reading.share.size > 1:
        if most is None:
            parts = _as_long(parts, source.length)
        else:
            assert reading.steps is not None
            parts = _first_of_all(parts.take(most), reading.steps)
        parts = parts.prefetch(2)
    parts = parts.with_options(in_order())
    parts._passed = kept
    fresh = GraphView(graph)
    length = None if source.length == tf.data.UNKNOWN_CARDINALITY else source.length
    passes = Passes(fresh, parts, length, lambda: _counted(fresh, source.spec, feeds))
    return Opened(
        parts,
        length,
        smallest=smallest,
        first_batches=_first_batches(fresh, source.spec, feeds, reading.share.size if strided else 1)
        if _is_cheap(fresh)
        else None,
        division=_division(reading.share, whole),
        standing=passes.standing,
        ends=most is not None,
    )


def _whole(view: GraphView, spec: Any, feeds: dict[str, Any]) -> tf.data.Dataset:
    return dataset_at(view, view.output, spec, feeds)


def _own_part(share: Share, in_tuple: bool) -> Any:
    @tf.autograph.experimental.do_not_convert
    def own_part(*batch: Any) -> Any:
        parts = tf.nest.map_structure(lambda leaf: None if leaf is None else _cut(leaf, share), batch)
        return parts if in_tuple else parts[0]

    return own_part


def _cut(leaf: Any, share: Share) -> Any:
    if isinstance(leaf, tf.RaggedTensor):
        low, high = share.bounds(leaf.nrows(out_type=tf.int64))
        return leaf[low:high]
    if isinstance(leaf, tf.SparseTensor):
        shape = leaf.dense_shape
        low, high = share.bounds(shape[0])
        begin = tf.concat([[low], tf.zeros_like(shape[1:])], 0)
        return tf.sparse.slice(leaf, begin, tf.concat([[high - low], shape[1:]], 0))
    known = leaf.shape[0] if leaf.shape.rank else None
    low, high = share.bounds(tf.shape(leaf, out_type=tf.int64)[0] if known is None else known)
    return leaf[low:high]


def _as_long(dataset: tf.data.Dataset, length: int) -> tf.data.Dataset:
    """Make a dataset report a length of ``length`` batches."""
    if int(dataset.cardinality()) == length or length == tf.data.UNKNOWN_CARDINALITY:
        return dataset
    if length == tf.data.INFINITE_CARDINALITY:
        return dataset.repeat()
    return dataset.apply(tf.data.experimental.assert_cardinality(length))


def _read_in_all(view: GraphView, reading: Reading) -> int | None:
    """Return the number of batches that each iteration of the dataset must read, or None if it does not matter.

    With ``validation_steps``, a validation run stops within the dataset, and the next one iterates over it anew. If the
    dataset repeats a shuffle, its next orders depend on how far it has been read, which must be equal in all tasks.
    TensorFlow reads one batch ahead of its caller, or as many as the dataset's own prefetch.
    """
    if reading.field != "validation_data" or reading.steps is None or not view.repeats_a_shuffle():
        return None
    last = view.output
    while last.op in ("OptionsDataset", "ModelDataset"):
        last = view.input(last, 0)
    ahead = view.number(last, 1) if last.op == "PrefetchDataset" else 1
    return reading.steps + (1 if ahead is None or ahead < 0 else ahead)


def _first_of_all(dataset: tf.data.Dataset, steps: int) -> tf.data.Dataset:
    """Return the first ``steps`` batches of a dataset, which is read to its end nevertheless."""

    @tf.autograph.experimental.do_not_convert
    def is_used(number: tf.Tensor, _: Any) -> tf.Tensor:
        return number < steps

    @tf.autograph.experimental.do_not_convert
    def without_number(_: tf.Tensor, batch: Any) -> Any:
        return batch

    return dataset.enumerate().filter(is_used).map(without_number)


def _smallest(view: GraphView, chain: Chain | None, spec: Any, feeds: dict[str, Any]) -> int | None:
    """Return the number of examples in the smallest batch, or None if it cannot be determined without reading."""
    sizes = [leaf.shape[0] if leaf.shape.rank else None for leaf in tf.nest.flatten(spec) if hasattr(leaf, "shape")]
    known = [int(size) for size in sizes if size is not None]
    if known and len(known) == len(sizes):
        return min(known)
    if chain is None:
        return None
    if chain.drops:
        return chain.size
    before = view.input(chain.batch, 0)
    kinds = before.attr["output_types" if "output_types" in before.attr else "Toutput_types"].list.type
    count = int(
        dataset_at(view, before, tuple(tf.TensorSpec(None, tf.as_dtype(k)) for k in kinds), feeds).cardinality()
    )
    if count == tf.data.INFINITE_CARDINALITY:
        return chain.size
    return None if count < 0 else count % chain.size or chain.size


def _first_batches(view: GraphView, spec: Any, feeds: dict[str, Any], strides: int) -> Any:
    """Return a function that returns the first batches, with the examples of each batch ordered by share.

    ``strides``: the number of tasks if each task has every ``strides``-th example; 1 if shares are contiguous.
    """

    def by_share(leaf: Any) -> Any:
        return None if leaf is None else tf.concat([leaf[rank::strides] for rank in range(strides)], 0)

    def first(count: int) -> list[Any]:
        found = list(_whole(view, spec, feeds).with_options(in_order()).take(count))
        return found if strides == 1 else [tf.nest.map_structure(by_share, batch) for batch in found]

    return first


def _counted(view: GraphView, spec: Any, feeds: dict[str, Any]) -> int:
    @tf.autograph.experimental.do_not_convert
    def one_more(count: tf.Tensor, *_: Any) -> tf.Tensor:
        return count + 1

    return int(_whole(view, spec, feeds).with_options(in_order()).reduce(tf.constant(0, tf.int64), one_more))


def _is_cheap(view: GraphView) -> bool:
    buffers = [view.number(node, 1) or 0 for node in view.datasets() if node.op in SHUFFLES]
    return not has_state(view) and all(buffer <= _MOST_FIRST for buffer in buffers)


def _division(share: Share, whole: bool) -> str:
    if share.size == 1:
        return ""
    if whole:
        return "By elements: each task computes every batch and takes its share of it"
    return (
        "By elements: each task takes its share of every batch's examples before they are mapped, and maps only these"
    )


def _register(view: GraphView, functions: dict[str, Any]) -> None:
    """Register the Python functions with TensorFlow in this process, and replace their tokens in the graph."""
    tokens = {token: script_ops._py_funcs.insert(function) for token, function in functions.items()}
    _KEPT.extend(functions.values())
    for node in view.everything():
        if node.op in PYTHON:
            node.attr["token"].s = tokens[node.attr["token"].s.decode()].encode()


def _check_files(source: PassedGraph, ctx: Any, field: str) -> None:
    missing = [path for path in source.files if not os.path.exists(path)]
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InvalidInput(
            f"`{field}` must read files that every task has under the same path, got {missing[0]}{others}, not found "
            f"by {getattr(ctx, 'task', 'a task')} on {socket.gethostname()}",
            field=field,
        )
