"""Gather, broadcast and all-to-all between tasks, as differentiable TensorFlow functions, and for objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from ....errors import InvalidInput
from . import primitives
from .calls import call_name
from .communicator import ProcessSet, communicator
from .inputs import check_place, checked, checked_rows


def allgather(tensor: Any, name: str | None = None, process_set: ProcessSet | None = None) -> tf.Tensor:
    """Return all tasks' tensors, concatenated in rank order along the first dimension. Its size may differ between
    tasks.
    """
    check_place()
    return primitives.gather(communicator(process_set), checked_rows(tensor), call_name("allgather", name))


def grouped_allgather(
    tensors: Sequence[Any], name: str | None = None, process_set: ProcessSet | None = None
) -> list[tf.Tensor]:
    """Apply ``allgather`` to each tensor. All tasks must pass the tensors in the same order."""
    check_place()
    comm = communicator(process_set)
    rows = [checked_rows(tensor) for tensor in tensors]
    if not rows:
        primitives.meet(comm, call_name("allgather of no tensors", name))
    names = [call_name(f"allgather {i + 1} of {len(rows)}", name) for i in range(len(rows))]
    return [primitives.gather(comm, tensor, each) for tensor, each in zip(rows, names, strict=True)]


def broadcast(
    tensor: Any, root_rank: int = 0, name: str | None = None, process_set: ProcessSet | None = None
) -> tf.Tensor:
    """Return the tensor of the task with rank ``root_rank`` in the run. Shape and dtype must be equal in all tasks."""
    check_place()
    comm = communicator(process_set)
    root = comm.root(root_rank)
    if isinstance(tensor, tf.IndexedSlices):
        tensor = tf.convert_to_tensor(tensor)
    return primitives.broadcast(comm, checked(tensor), root, call_name("broadcast", name))


def broadcast_variables(variables: Iterable[Any], root_rank: int = 0, process_set: ProcessSet | None = None) -> None:
    """Set all variables, of TensorFlow or Keras, to their values in the task ``root_rank``, in one exchange."""
    check_place()
    comm = communicator(process_set)
    root = comm.root(root_rank)
    variables = list(variables)
    held = [checked(variable) for variable in variables]
    if not held:
        primitives.meet(comm, "broadcast of no variables")
        return
    name = comm.named("broadcast of variables")
    values = comm.in_order(lambda: comm.reducer.broadcast_tensors(held, root, name))
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def alltoall(
    tensor: Any, splits: Any = None, name: str | None = None, process_set: ProcessSet | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Send each task some rows of a tensor. ``splits``, of shape (size,), holds the number of rows for each task. By
    default, all tasks get the same number.

    Returns the received rows, in order of the senders' ranks, and the number of rows from each task (int64). Raises
    InvalidInput if ``splits`` is not given and the rows cannot be divided equally.
    """
    check_place()
    comm = communicator(process_set)
    tensor = checked_rows(tensor)
    if splits is None:
        length = tensor.shape[0] if tensor.shape[0] is not None else tf.shape(tensor)[0]
        if isinstance(length, int) and length % comm.size:
            raise InvalidInput(
                f"`splits` must be given unless the rows can be divided evenly among {comm.size} tasks, got "
                f"{length} rows",
                field="splits",
            )
        splits = tf.fill([comm.size], length // comm.size)
    splits = tf.cast(tf.convert_to_tensor(splits), tf.int64)
    if splits.shape.is_fully_defined() and splits.shape != (comm.size,):
        raise InvalidInput(f"`splits` must have a number for each of {comm.size} tasks, got {splits}", field="splits")
    return primitives.exchange(comm, tensor, splits, call_name("alltoall", name))


def barrier(process_set: ProcessSet | None = None) -> None:
    """Wait until all tasks have called this function."""
    check_place()
    primitives.meet(communicator(process_set), "barrier")


def broadcast_object(obj: Any = None, root_rank: int = 0, process_set: ProcessSet | None = None) -> Any:
    """Return the object of the task ``root_rank``; the objects of other tasks are ignored.

    The object must be picklable; functions that are defined in the program may be lambdas or nested ones.
    """
    comm = communicator(process_set)
    root = comm.root(root_rank)
    name = call_name("broadcast_object", root_rank=root_rank)
    return comm.reducer.all_gather(obj if comm.rank == root else None, name)[root]


def allgather_object(obj: Any, process_set: ProcessSet | None = None) -> list[Any]:
    """Return all tasks' objects, in rank order. They must be picklable, as for ``broadcast_object``."""
    return communicator(process_set).reducer.all_gather(obj, "allgather_object")
