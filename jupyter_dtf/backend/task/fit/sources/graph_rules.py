"""Checks whether each task can compute a dataset independently so that all tasks see the same batches."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .....errors import InvalidInput
from .graph_view import PYTHON, SHUFFLES, GraphView, is_random, is_seeded
from .passed_graph import OnlyWhereMade

_WITH_DUMMY = SHUFFLES | {"CacheDatasetV2", "RandomDatasetV2"}
"""Operations that create their own resource if the given resource does not exist."""
_FILES_OF_ONE = {
    "SnapshotDataset": "snapshot()",
    "SnapshotDatasetV2": "snapshot()",
    "SaveDataset": "save()",
    "SaveDatasetV2": "save()",
}


def check_spec(spec: Any, field: str) -> None:
    """Raise InvalidInput unless a dataset's elements are batches."""
    shapes: list[tuple[int | None, ...]] = []
    leaves = [leaf for leaf in tf.nest.flatten(spec) if leaf is not None and type(leaf).__name__ != "NoneTensorSpec"]
    for leaf in leaves:
        if not isinstance(leaf, (tf.TensorSpec, tf.RaggedTensorSpec, tf.SparseTensorSpec)):
            raise InvalidInput(
                f"`{field}`: a dataset's elements must be tensors, ragged tensors or sparse tensors, got {leaf}",
                field=field,
            )
        if leaf.shape.rank is not None:
            shapes.append(tuple(leaf.shape))
    if () in shapes or len({shape[0] for shape in shapes} - {None}) > 1:
        raise InvalidInput(
            f"`{field}`: the dataset must be batched, so that all tensors of an element have the same batch dimension, "
            f"got elements of shapes {', '.join(map(str, shapes))}; call `.batch(n)`",
            field=field,
        )


def check_options(options: Any, field: str) -> None:
    """Raise InvalidInput for a sharding policy under which the batches would differ from those of one process."""
    policy = options.experimental_distribute.auto_shard_policy
    auto = tf.data.experimental.AutoShardPolicy
    if policy not in (auto.AUTO, auto.DATA):
        raise InvalidInput(
            f"`{field}`: a passed dataset must have auto_shard_policy AUTO or DATA, because each task takes its share "
            f"of every batch, got AutoShardPolicy.{policy.name}. For tasks that read files of their own, pass a "
            "function data_fn(ctx) that returns ctx.shard(dataset) or the dataset of those files",
            field=field,
        )


def check_graph(view: GraphView, field: str) -> None:
    """Raise OnlyWhereMade if tasks would compute the dataset differently, or if the dataset needs the caller's
    process.
    """
    of_values = {node.name: by_example for node, by_example in view.of_values()}
    for node in view.datasets():
        _check_state(view, node, field)
        calls = view.calls(node)
        python = [inner for inner in calls if inner.op in PYTHON]
        if python and node.name not in of_values:
            raise OnlyWhereMade(
                "a Python function determines which elements the dataset has (from_generator, or a py_function before "
                f"a filter, flat_map or interleave; in {node.op})",
                field,
            )
        unseeded = [inner for inner in calls if is_random(inner) and not is_seeded(inner)]
        if unseeded and not of_values.get(node.name, False):
            raise OnlyWhereMade(
                "random numbers without a seed affect whole batches, or determine which elements the dataset has "
                f"({unseeded[0].op} in {node.op})",
                field,
            )
    for node in view.everything():
        _check_operation(node, field)


def _check_state(view: GraphView, node: Any, field: str) -> None:
    for number, inner in enumerate(view.inputs(node)):
        is_handle = inner.op == "Const" and inner.attr["dtype"].type == tf.resource.as_datatype_enum
        if is_handle and node.op not in _WITH_DUMMY:
            raise OnlyWhereMade(
                "it uses an object of that process, such as an iterator or a queue, that is not a tensor, a variable "
                f"or a lookup table (input {number} of {node.op})",
                field,
            )
    if node.op in ("CacheDataset", "CacheDatasetV2") and view.value(node, 1) != b"":
        raise OnlyWhereMade(f"all tasks would write the files of its cache: {view.value(node, 1)}", field)
    if node.op == "ParallelInterleaveDataset" and view.number(node, len(node.input) - 3) != 0:
        raise OnlyWhereMade("its order depends on timing (parallel_interleave with sloppy=True)", field)


def _check_operation(node: Any, field: str) -> None:
    if node.op in _FILES_OF_ONE:
        raise OnlyWhereMade(f"all tasks would write the files of {_FILES_OF_ONE[node.op]}", field)
    if node.op.startswith("DataServiceDataset"):
        raise OnlyWhereMade("the tf.data service gives each batch to the first task that requests it", field)
