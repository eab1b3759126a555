"""Horovod's collectives by Horovod's signatures.

They work eagerly and in a ``tf.function``, with gradients; every task calls the same ones in the same order. Arguments
that say on which device, in which session or under which name scope are taken and not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from ...backend.task.collectives import ops
from ...errors import InvalidInput
from .basics import local_rank, local_size, ours, rank, size
from .reduction import Average, Compression, checked_compression, checked_op


def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: str = Compression.none,
    op: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: Any = None,
    ignore_name_scope: bool = False,
) -> Any:
    """The reduction over the tasks, of the tensor's shape and type; IndexedSlices are gathered and stay sparse."""
    return ops.allreduce(
        _tensor(tensor), **_how(op, average, compression, prescale_factor, postscale_factor, name, process_set)
    )


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: str = Compression.none,
    op: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = None,
    ignore_name_scope: bool = False,
) -> list[Any]:
    """``allreduce`` of several tensors in one exchange."""
    how = _how(op, average, compression, prescale_factor, postscale_factor, None, process_set)
    return list(ops.grouped_allreduce([_tensor(t) for t in tensors], **how))


def allgather(
    tensor: Any, name: str | None = None, ignore_name_scope: bool = False, process_set: Any = None
) -> tf.Tensor:
    """All tasks' tensors, one after the other along the first dimension, which may differ from task to task."""
    return ops.allgather(_tensor(tensor), process_set=ours(process_set))


def grouped_allgather(
    tensors: Sequence[Any], name: str | None = None, ignore_name_scope: bool = False, process_set: Any = None
) -> list[tf.Tensor]:
    return list(ops.grouped_allgather([_tensor(t) for t in tensors], process_set=ours(process_set)))


def broadcast(
    tensor: Any, root_rank: int, name: str | None = None, ignore_name_scope: bool = False, process_set: Any = None
) -> tf.Tensor:
    """The tensor of the task of rank ``root_rank``."""
    return ops.broadcast(_tensor(tensor), root_rank=root_rank, process_set=ours(process_set))


def broadcast_(variables: Sequence[Any], root_rank: int, name: str | None = None, process_set: Any = None) -> Any:
    """``broadcast_variables``, by its other name."""
    return broadcast_variables(variables, root_rank, process_set)


def broadcast_variables(
    variables: Sequence[Any], root_rank: int, process_set: Any = None, inplace: bool = False
) -> Any:
    """Every task's variables take the values of the root's.

    The seeds of Keras's random layers stay each task's own: with the root's, dropout would drop the same everywhere.
    """
    shared = [v for v in variables if not _is_seed(v)]
    return ops.broadcast_variables(shared, root_rank=root_rank, process_set=ours(process_set))


def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: str = Compression.none,
    op: str = Average,
    name: str | None = None,
    process_set: Any = None,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> tf.Tensor:
    """This task's part of the reduction, cut along the first dimension; the first tasks get the rest."""
    how = _how(op, None, compression, prescale_factor, postscale_factor, name, process_set)
    return ops.reducescatter(_tensor(tensor), **how)


def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: str = Compression.none,
    op: str = Average,
    process_set: Any = None,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[tf.Tensor]:
    how = _how(op, None, compression, prescale_factor, postscale_factor, None, process_set)
    return list(ops.grouped_reducescatter([_tensor(t) for t in tensors], **how))


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: Any = None,
) -> Any:
    """Rows of this task's tensor go to the tasks, ``splits[r]`` of them, in order, to rank r; equal parts by default.

    Returns the rows that came, and if ``splits`` was given, how many came from each task.
    """
    received, counts = ops.alltoall(_tensor(tensor), splits=splits, process_set=ours(process_set))
    return received if splits is None else (received, counts)


def barrier(process_set: Any = None) -> None:
    """Return when all tasks have come here."""
    ops.barrier(process_set=ours(process_set))


def broadcast_object(
    obj: Any, root_rank: int = 0, session: Any = None, name: str | None = None, process_set: Any = None
) -> Any:
    """The root's picklable object, on every task."""
    return ops.broadcast_object(obj, root_rank=root_rank, process_set=ours(process_set))


def broadcast_object_fn(
    root_rank: int = 0, session: Any = None, name: str | None = None, process_set: Any = None
) -> Callable[[Any], Any]:
    """A function that is ``broadcast_object`` with these arguments."""
    return lambda obj: broadcast_object(obj, root_rank, process_set=process_set)


def allgather_object(obj: Any, session: Any = None, name: str | None = None, process_set: Any = None) -> list[Any]:
    """Every task's picklable object, by rank."""
    return list(ops.allgather_object(obj, process_set=ours(process_set)))


def broadcast_global_variables(root_rank: int) -> None:
    """Refused: there are no global variables outside of TensorFlow 1's graphs. Raises InvalidInput."""
    raise InvalidInput(
        "TensorFlow 2 keeps no list of global variables. Instead of broadcast_global_variables and its hook: "
        "hvd.broadcast_variables(model.variables, root_rank), and the same with optimizer.variables"
    )


def BroadcastGlobalVariablesHook(root_rank: int, device: str = "") -> None:
    """Refused, as ``broadcast_global_variables``. Raises InvalidInput."""
    broadcast_global_variables(root_rank)


def rank_op(name: str | None = None) -> tf.Tensor:
    return tf.constant(rank())


def local_rank_op(name: str | None = None) -> tf.Tensor:
    return tf.constant(local_rank())


def size_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    return tf.constant(size())


def local_size_op(name: str | None = None) -> tf.Tensor:
    return tf.constant(local_size())


def _tensor(value: Any) -> Any:
    return value if isinstance(value, tf.IndexedSlices) else tf.convert_to_tensor(value)


def _how(
    op: str | None,
    average: bool | None,
    compression: str,
    prescale_factor: float,
    postscale_factor: float,
    name: str | None,
    process_set: Any,
) -> dict[str, Any]:
    return {
        "op": checked_op(op, average),
        "compression": checked_compression(compression),
        "prescale_factor": prescale_factor,
        "postscale_factor": postscale_factor,
        "name": name,
        "process_set": ours(process_set),
    }


def _is_seed(variable: Any) -> bool:
    return isinstance(variable, keras.Variable) and variable.name == "seed_generator_state"
