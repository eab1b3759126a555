"""Which datasets every task can compute for itself, such that all tasks see the same batches."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .....errors import InvalidInput
from .graph_view import PYTHON, SHUFFLES, GraphView, is_random, is_seeded

_WITH_DUMMY = SHUFFLES | {"CacheDatasetV2", "RandomDatasetV2"}
"""Operations that have a resource of their own where the one that they are given is not there."""
_FILES_OF_ONE = {
    "SnapshotDataset": "snapshot()",
    "SnapshotDatasetV2": "snapshot()",
    "SaveDataset": "save()",
    "SaveDatasetV2": "save()",
}


def check_spec(spec: Any, field: str) -> None:
    """Raise InvalidInput unless a dataset's elements are batches."""
    for leaf in tf.nest.flatten(spec):
        if leaf is None or type(leaf).__name__ == "NoneTensorSpec":
            continue
        if not isinstance(leaf, (tf.TensorSpec, tf.RaggedTensorSpec, tf.SparseTensorSpec)):
            raise InvalidInput(
                f"The elements of a dataset are tensors, ragged tensors or sparse tensors. Received: {leaf}",
                field=field,
            )
        if leaf.shape.rank == 0:
            raise InvalidInput(
                "The dataset must be batched, with dataset.batch(...): each tensor of an element has a first "
                f"dimension, the examples. Received elements of {spec}",
                field=field,
            )


def check_options(options: Any, field: str) -> None:
    """Raise InvalidInput for a division that gives other batches than one process has."""
    policy = options.experimental_distribute.auto_shard_policy
    auto = tf.data.experimental.AutoShardPolicy
    if policy not in (auto.AUTO, auto.DATA):
        raise InvalidInput(
            "A passed dataset is divided by elements, each task its share of every batch: auto_shard_policy must be "
            "AUTO or DATA. For tasks that read files of their own, pass a function data_fn(ctx) that returns "
            f"ctx.shard(dataset) or the dataset of those files. Received: AutoShardPolicy.{policy.name}",
            field=field,
        )


def check_graph(view: GraphView, field: str) -> None:
    """Raise InvalidInput for what tasks would compute differently, or what is in the caller's process alone."""
    of_values = {node.name: batched for node, batched in view.of_values()}
    for node in view.datasets():
        _check_state(view, node, field)
        calls = view.calls(node)
        python = [inner for inner in calls if inner.op in PYTHON]
        if python and node.name not in of_values:
            raise InvalidInput(
                "A Python function that decides which elements there are (from_generator, or a py_function before "
                "filter, flat_map or interleave) may give each task others, so it cannot run in the tasks: pass the "
                "generator itself, or iter(dataset.repeat()) with steps_per_epoch, which this process then reads, or a "
                "keras.utils.PyDataset. Received one below "
                f"{node.op}",
                field=field,
            )
        unseeded = [inner for inner in calls if is_random(inner) and not is_seeded(inner)]
        if unseeded and not of_values.get(node.name, False):
            raise InvalidInput(
                "Random numbers that whole batches are made with, or that decide which elements there are, must be the "
                "same in every task: give them a seed (tf.random.set_seed(...) before the dataset is made), or use "
                f"tf.random.stateless_uniform and the like. Received: {unseeded[0].op} without a seed in {node.op}",
                field=field,
            )
    for node in view.everything():
        _check_operation(node, field)


def _check_state(view: GraphView, node: Any, field: str) -> None:
    for number, inner in enumerate(view.inputs(node)):
        is_handle = inner.op == "Const" and inner.attr["dtype"].type == tf.resource.as_datatype_enum
        if is_handle and node.op not in _WITH_DUMMY:
            raise InvalidInput(
                "A dataset's functions may use tensors, variables and lookup tables, which travel with their values; "
                "other resources (an iterator, a queue) are of the process that made them. Received: one as input "
                f"{number} of {node.op}",
                field=field,
            )
    if node.op in ("CacheDataset", "CacheDatasetV2") and view.value(node, 1) != b"":
        raise InvalidInput(
            "A cache in files is of one process: tasks would write the same files. Use cache() without a file name. "
            f"Received: cache({view.value(node, 1)})",
            field=field,
        )
    if node.op == "ParallelInterleaveDataset" and view.number(node, len(node.input) - 3) != 0:
        raise InvalidInput(
            "Tasks must see the same batches, so a dataset's order must not depend on time. Received: "
            "parallel_interleave with sloppy=True",
            field=field,
        )


def _check_operation(node: Any, field: str) -> None:
    if node.op in _FILES_OF_ONE:
        raise InvalidInput(
            f"{_FILES_OF_ONE[node.op]} in a dataset writes files that all tasks would write: save it before, and pass "
            "tf.data.Dataset.load(...). Received a dataset with it",
            field=field,
        )
    if node.op.startswith("DataServiceDataset"):
        raise InvalidInput(
            "A dataset of the tf.data service gives its batches to whoever asks first, so that tasks would see "
            "others than one process: pass the dataset itself. Received: a dataset of the service",
            field=field,
        )
