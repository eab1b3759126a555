"""Gathering, broadcasting and exchanging between tasks, as differentiable TensorFlow functions, and for objects."""

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
    """All tasks' tensors, in order of rank, one after the other along the first dimension, which may differ."""
    check_place()
    return primitives.gather(communicator(process_set), checked_rows(tensor), call_name("allgather", name))


def grouped_allgather(
    tensors: Sequence[Any], name: str | None = None, process_set: ProcessSet | None = None
) -> list[tf.Tensor]:
    """``allgather`` of each, which all tasks hand over in the same order."""
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
    """The tensor of the task whose rank in the run is ``root_rank``. Shape and type are equal on all tasks."""
    check_place()
    comm = communicator(process_set)
    root = comm.root(root_rank)
    if isinstance(tensor, tf.IndexedSlices):
        tensor = tf.convert_to_tensor(tensor)
    return primitives.broadcast(comm, checked(tensor), root, call_name("broadcast", name))


def broadcast_variables(variables: Iterable[Any], root_rank: int = 0, process_set: ProcessSet | None = None) -> None:
    """Give all variables, TensorFlow's or Keras's, the values they have on ``root_rank``, in one exchange."""
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
    """Send so many rows to each task as ``splits``, of shape (size,), says; without it, equally many.

    Returns the rows that were received, in order of the senders' ranks, and how many came from each (int64).
    Raises InvalidInput if there is no equal division.
    """
    check_place()
    comm = communicator(process_set)
    tensor = checked_rows(tensor)
    if splits is None:
        length = tensor.shape[0] if tensor.shape[0] is not None else tf.shape(tensor)[0]
        if isinstance(length, int) and length % comm.size:
            raise InvalidInput(
                f"Without splits, the rows divide among {comm.size} tasks. Received: {length} rows", field="splits"
            )
        splits = tf.fill([comm.size], length // comm.size)
    splits = tf.cast(tf.convert_to_tensor(splits), tf.int64)
    if splits.shape.is_fully_defined() and splits.shape != (comm.size,):
        raise InvalidInput(f"splits has a number for each of {comm.size} tasks. Received: {splits}", field="splits")
    return primitives.exchange(comm, tensor, splits, call_name("alltoall", name))


def barrier(process_set: ProcessSet | None = None) -> None:
    """Return, or in a ``tf.function`` go on, when all tasks have come here."""
    check_place()
    primitives.meet(communicator(process_set), "barrier")


def broadcast_object(obj: Any = None, root_rank: int = 0, process_set: ProcessSet | None = None) -> Any:
    """The picklable object of the task of ``root_rank``; the others' is not looked at."""
    comm = communicator(process_set)
    root = comm.root(root_rank)
    return comm.reducer.all_gather(obj if comm.rank == root else None)[root]


def allgather_object(obj: Any, process_set: ProcessSet | None = None) -> list[Any]:
    """All tasks' picklable objects, in order of rank."""
    return communicator(process_set).reducer.all_gather(obj)
