"""The names of ``horovod.tensorflow.keras``; ``horovod.keras`` is the same, because there is only one Keras now.

Its collectives accept anything that can be converted to a tensor. Their arguments are in a different order from those
of ``horovod.tensorflow``.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ... import callbacks, elastic
from ... import collectives as _collectives
from ...basics import (
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    rocm_built,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from ...graph1 import broadcast_global_variables
from ...optimizer import DistributedOptimizer as _DistributedOptimizer
from ...optimizer import PartialDistributedOptimizer
from ...process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from ...reduce_ops import Adasum, Average, Compression, Sum

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "PartialDistributedOptimizer",
    "ProcessSet",
    "Sum",
    "add_process_set",
    "allgather",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "callbacks",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "load_model",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    **options: Any,
) -> Any:
    """Call ``horovod.tensorflow.DistributedOptimizer``. Here, ``use_locking`` is not among the positional arguments."""
    return _DistributedOptimizer(optimizer, name, compression=compression, sparse_as_dense=sparse_as_dense, **options)


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: str | None = None,
    compression: Any = Compression.none,
) -> Any:
    """Reduce a value over the tasks. Returns a tensor with the shape and dtype of the value."""
    return _collectives.allreduce(
        tf.constant(value),
        name=name,
        average=average,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        compression=compression,
    )


def allgather(value: Any, name: str | None = None) -> Any:
    """Concatenate all tasks' values along the first dimension, whose size may differ between tasks."""
    return _collectives.allgather(tf.constant(value), name=name)


def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """Return the value of the task with rank ``root_rank``."""
    return _collectives.broadcast(tf.constant(value), root_rank, name=name)


def reducescatter(value: Any, name: str | None = None, op: str = Average) -> Any:
    """Return this task's part of the reduction, split along the first dimension."""
    return _collectives.reducescatter(tf.constant(value), op=op, name=name)


def load_model(
    filepath: Any,
    custom_optimizers: Any = None,
    custom_objects: Any = None,
    compression: Any = Compression.none,
    legacy_opts: bool = False,
) -> Any:
    """Load a saved Keras model, and make its optimizer, with its state, a distributed one."""
    objects = {cls.__name__: cls for cls in custom_optimizers or ()}
    model = keras.models.load_model(filepath, custom_objects={**objects, **(custom_objects or {})})
    DistributedOptimizer(model.optimizer, compression=compression)
    return model
