"""Horovod's collectives, with Horovod's signatures and gradients.

They work eagerly, in a ``tf.function`` and in a TensorFlow 1 graph. All tasks must call the same collectives in the
same order. Arguments for the device, session and name scope are accepted but ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf

from ...backend.task.collectives import ops, primitives
from ...backend.task.collectives.calls import call_name
from ...backend.task.collectives.communicator import Communicator, communicator
from ...backend.task.collectives.inputs import check_place, checked, checked_rows
from . import basics, process_sets
from .process_sets import ours
from .reduce_ops import Average, Compression, Sum, checked_compression, checked_op
from .reduction_calls import Reduction, gathered_slices, reduced, scattered
from .translated_errors import InvalidArgument, NotOffered, as_horovods


@as_horovods
def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: Any = None,
    ignore_name_scope: bool = False,
) -> Any:
    """Reduce a tensor over the tasks.

    Args:
        tensor: A tensor, or anything that can be converted to one, with the same shape and dtype on all tasks, or
            ``tf.IndexedSlices``, which are gathered and stay sparse.
        average: The older form of ``op``: True for an average, False for a sum.
        device_dense: Accepted but ignored.
        device_sparse: Accepted but ignored.
        compression: The compression of tensors that are sent, one of ``hvd.Compression``.
        op: ``hvd.Average`` (default), ``hvd.Sum``, ``hvd.Min``, ``hvd.Max`` or ``hvd.Product``.
        prescale_factor: The factor by which the tensor is multiplied before the reduction.
        postscale_factor: The factor by which the result is multiplied.
        name: Must be the same on all tasks.
        process_set: The tasks that take part; None: all tasks.
        ignore_name_scope: Accepted but ignored.

    Returns:
        The reduced tensor, with the shape and dtype of ``tensor``.

    Raises:
        InvalidArgument: For invalid arguments, or if this task is not in the process set.
        NotOffered: For reductions of IndexedSlices that are not averages or sums, or with factors.
    """
    how = Reduction(_op(op, average, [tensor]), prescale_factor, postscale_factor, name=name)
    return _allreduced([tensor], how, compression, process_set)[0]


@as_horovods
def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = None,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> list[Any]:
    """Call ``allreduce`` for several tensors in one exchange."""
    how = Reduction(_op(op, average, tensors), prescale_factor, postscale_factor, name=name)
    return _allreduced(tensors, how, compression, process_set)


@as_horovods
def allgather(
    tensor: Any, name: str | None = None, ignore_name_scope: bool = False, process_set: Any = None
) -> tf.Tensor:
    """Concatenate all tasks' tensors along the first dimension.

    Args:
        tensor: A tensor of shape (rows, ...). The number of rows may differ between tasks.
        name: Must be the same on all tasks.
        ignore_name_scope: Accepted but ignored.
        process_set: The tasks that take part; None: all tasks.

    Returns:
        A tensor of shape (total rows, ...), with the tasks' rows in rank order.
    """
    check_place()
    return primitives.gather(_among(process_set), checked_rows(tensor), call_name("allgather", name), averages=True)


@as_horovods
def grouped_allgather(
    tensors: Sequence[Any], name: str | None = None, ignore_name_scope: bool = False, process_set: Any = None
) -> list[tf.Tensor]:
    """Call ``allgather`` for each tensor."""
    check_place()
    comm = _among(process_set)
    rows = [checked_rows(tensor) for tensor in tensors]
    if not rows:
        primitives.meet(comm, call_name("allgather of no tensors", name))
    names = [call_name(f"allgather {i + 1} of {len(rows)}", name) for i in range(len(rows))]
    return [primitives.gather(comm, tensor, each, averages=True) for tensor, each in zip(rows, names, strict=True)]


@as_horovods
def broadcast(
    tensor: Any, root_rank: int, name: str | None = None, ignore_name_scope: bool = False, process_set: Any = None
) -> tf.Tensor:
    """Send the tensor of one task to all tasks.

    Args:
        tensor: A tensor with the same shape and dtype on all tasks.
        root_rank: The rank of the task whose tensor is sent.
        name: Must be the same on all tasks.
        ignore_name_scope: Accepted but ignored.
        process_set: The tasks that take part; None: all tasks.

    Returns:
        The root's tensor.
    """
    check_place()
    comm = _among(process_set)
    root = comm.root(root_rank)
    return primitives.broadcast(comm, checked(tensor), root, call_name("broadcast", name), averages=True)


@as_horovods
def broadcast_(variables: Iterable[Any], root_rank: int, name: str | None = None, process_set: Any = None) -> list[Any]:
    """Assign the root's values to the variables in one exchange, and return the values.

    In a graph, fetching any returned value performs the assignment. Unlike ``broadcast_variables``, this function also
    assigns the seeds of Keras's random layers.
    """
    check_place()
    comm = _among(process_set)
    root = comm.root(root_rank)
    variables = list(variables)
    held = [checked(tf.convert_to_tensor(variable)) for variable in variables]
    if not held:
        return []
    call = comm.named(call_name("broadcast of variables", name))
    values = comm.in_order(lambda: comm.reducer.broadcast_tensors(held, root, call))
    assigned = [variable.assign(value) for variable, value in zip(variables, values, strict=True)]
    with tf.control_dependencies([tf.convert_to_tensor(each) for each in assigned if each is not None]):
        return [tf.identity(value) for value in values]


@as_horovods
def broadcast_variables(
    variables: Iterable[Any], root_rank: int, process_set: Any = None, inplace: bool = False
) -> Any:
    """Assign the root's values to every task's variables.

    Each task keeps its own seeds of Keras's random layers. With the root's seeds, dropout would be the same in all
    tasks.

    Args:
        variables: Variables of TensorFlow or Keras, the same on all tasks.
        root_rank: The rank of the task whose values are assigned.
        process_set: The tasks that take part; None: all tasks.
        inplace: Accepted but ignored.

    Returns:
        In a TensorFlow 1 graph, the op that assigns the values; otherwise None.
    """
    shared = [variable for variable in variables if not _is_seed(variable)]
    in_graph = not tf.executing_eagerly()
    if not shared and in_graph:
        return tf.no_op()
    values = broadcast_(shared, root_rank, process_set=process_set)
    return tf.group(*values) if in_graph else None


@as_horovods
def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: Any = Compression.none,
    op: str = Average,
    name: str | None = None,
    process_set: Any = None,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> tf.Tensor:
    """Reduce a tensor over the tasks, and return this task's part of the result.

    Args:
        tensor: A tensor of shape (rows, ...), with the same shape and dtype on all tasks.
        device_dense: Accepted but ignored.
        compression: The compression of tensors that are sent, one of ``hvd.Compression``.
        op: ``hvd.Average``, ``hvd.Sum``, ``hvd.Min``, ``hvd.Max`` or ``hvd.Product``.
        name: Must be the same on all tasks.
        process_set: The tasks that take part; None: all tasks.
        ignore_name_scope: Accepted but ignored.
        prescale_factor: The factor by which the tensor is multiplied before the reduction.
        postscale_factor: The factor by which the result is multiplied.

    Returns:
        The part of the result for this task's rank, split along the first dimension. The first tasks get the remainder
        of an uneven split.
    """
    how = Reduction(_op(op, None, [tensor]), prescale_factor, postscale_factor, "reducescatter", name)
    return _scattered([tensor], how, compression, process_set)[0]


@as_horovods
def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: Any = Compression.none,
    op: str = Average,
    process_set: Any = None,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
) -> list[tf.Tensor]:
    """Call ``reducescatter`` for several tensors in one exchange."""
    how = Reduction(_op(op, None, tensors), prescale_factor, postscale_factor, "reducescatter", name)
    return _scattered(tensors, how, compression, process_set)


@as_horovods
def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: Any = None,
) -> Any:
    """Send parts of this task's tensor to the other tasks.

    Args:
        tensor: A tensor of shape (rows, ...).
        splits: The number of consecutive rows to send to each rank, of shape (size,). By default, the parts are equal.
        name: Must be the same on all tasks.
        ignore_name_scope: Accepted but ignored.
        process_set: The tasks that take part; None: all tasks.

    Returns:
        The received rows, in rank order; if ``splits`` was given, a pair of these and the number of rows received
        from each task, int32 of shape (size,).
    """
    _among(process_set)
    received, counts = ops.alltoall(tensor, splits=splits, name=name, process_set=ours(process_set))
    return received if splits is None else (received, tf.cast(counts, tf.int32))


@as_horovods
def barrier(process_set: Any = None) -> None:
    """Wait until all tasks have called this function."""
    _among(process_set)
    ops.barrier(process_set=ours(process_set))


@as_horovods
def join(device: int = -1) -> Any:
    """Call ``basics.join``. In a TensorFlow 1 graph, return an op that calls it."""
    if tf.executing_eagerly():
        return tf.constant(basics.join(device))
    last = tf.numpy_function(lambda: basics.join(device), [], tf.int64)
    last.set_shape([])
    return last


def broadcast_object(
    obj: Any, root_rank: int = 0, session: Any = None, name: str | None = None, process_set: Any = None
) -> Any:
    """Return the root's picklable object in every task."""
    return ops.broadcast_object(obj, root_rank=root_rank, process_set=ours(process_set))


def broadcast_object_fn(
    root_rank: int = 0, session: Any = None, name: str | None = None, process_set: Any = None
) -> Callable[[Any], Any]:
    """Return a function that calls ``broadcast_object`` with these arguments."""
    return lambda obj: broadcast_object(obj, root_rank, process_set=process_set)


def allgather_object(obj: Any, session: Any = None, name: str | None = None, process_set: Any = None) -> list[Any]:
    """Return every task's picklable object, in rank order."""
    return list(ops.allgather_object(obj, process_set=ours(process_set)))


def rank_op(name: str | None = None) -> tf.Tensor:
    return tf.constant(basics.rank())


def local_rank_op(name: str | None = None) -> tf.Tensor:
    return tf.constant(basics.local_rank())


def size_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """Return the size of the process set with that number."""
    basics.size()
    return tf.constant(process_sets.by_number(process_set_id).size())


def local_size_op(name: str | None = None) -> tf.Tensor:
    return tf.constant(basics.local_size())


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """Return 1 if this task is in the process set with that number, 0 if not."""
    basics.size()
    return tf.constant(int(process_sets.by_number(process_set_id).included()))


def _allreduced(tensors: Sequence[Any], how: Reduction, compression: Any, process_set: Any) -> list[Any]:
    comm = _among(process_set)
    compressor = checked_compression(compression)
    results = [checked(tensor) for tensor in tensors]
    dense = [i for i, tensor in enumerate(results) if not isinstance(tensor, tf.IndexedSlices)]
    for i, tensor in enumerate(results):
        if i not in dense:
            results[i] = gathered_slices(comm, tensor, how)
    if dense or not results:
        sent = [compressor.compress(results[i]) for i in dense]
        for i, total, (_, ctx) in zip(dense, reduced(comm, [t for t, _ in sent], how), sent, strict=True):
            results[i] = compressor.decompress(total, ctx)
    return results


def _scattered(tensors: Sequence[Any], how: Reduction, compression: Any, process_set: Any) -> list[tf.Tensor]:
    comm = _among(process_set)
    compressor = checked_compression(compression)
    sent = [compressor.compress(checked_rows(tensor)) for tensor in tensors]
    received = scattered(comm, [tensor for tensor, _ in sent], how)
    return [compressor.decompress(rows, ctx) for rows, (_, ctx) in zip(received, sent, strict=True)]


def _among(process_set: Any) -> Communicator:
    """Return the communicator of a process set. Raises InvalidArgument if this task is not in the set."""
    chosen = ours(process_set)
    if chosen is not None and not chosen.included():
        raise InvalidArgument(
            f"`process_set` must include this task, rank {basics.rank()}, got {chosen}", field="process_set"
        )
    return communicator(chosen)


def _op(op: str | None, average: bool | None, tensors: Sequence[Any]) -> str:
    if op not in (None, Average, Sum) and any(isinstance(tensor, tf.IndexedSlices) for tensor in tensors):
        raise NotOffered(f"tf.IndexedSlices can only be averaged or summed, got op={op!r}", field="op")
    return checked_op(op, average)


def _is_seed(variable: Any) -> bool:
    return isinstance(variable, keras.Variable) and variable.name == "seed_generator_state"
