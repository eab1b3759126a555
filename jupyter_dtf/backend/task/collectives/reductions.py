"""Reductions between tasks as differentiable TensorFlow functions, dense and sparse, alone and fused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ....errors import InvalidInput
from . import primitives
from .base import OPS
from .communicator import Communicator, ProcessSet, communicator
from .exchanges import allgather

_COMPRESSIONS = {"none": None, "fp16": tf.float16, "bf16": tf.bfloat16}


def allreduce(
    tensor: Any,
    op: str = "average",
    name: str | None = None,
    *,
    compression: str = "none",
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet | None = None,
) -> Any:
    """The tensor's reduction over the tasks, of its shape and type: ``op`` is average, sum, min, max or product.

    ``compression`` "fp16" or "bf16" sends floating-point values of more bits as such. The factors multiply what is sent
    and what is returned. ``tf.IndexedSlices`` are averaged or summed by gathering the slices of all tasks, which stay
    sparse; where two tasks have a slice of the same index it is there twice.

    The gradient is that of the sum of all tasks' losses. Raises InvalidInput for an average of integers.
    """
    return grouped_allreduce(
        [tensor],
        op,
        name,
        compression=compression,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set=process_set,
    )[0]


def grouped_allreduce(
    tensors: Sequence[Any],
    op: str = "average",
    name: str | None = None,
    *,
    compression: str = "none",
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet | None = None,
) -> list[Any]:
    """``allreduce`` of several tensors in one exchange, which costs less than one for each."""
    if compression not in _COMPRESSIONS:
        raise InvalidInput(
            f"compression is one of {', '.join(_COMPRESSIONS)}. Received: {compression!r}", field="compression"
        )
    comm = communicator(process_set)
    results: list[Any] = [t if isinstance(t, tf.IndexedSlices) else tf.convert_to_tensor(t) for t in tensors]
    for index, tensor in enumerate(results):
        _check(tensor, op, prescale_factor != 1 or postscale_factor != 1)
        if isinstance(tensor, tf.IndexedSlices):
            factor = prescale_factor * postscale_factor / (comm.size if op == "average" else 1)
            results[index] = _gathered(tensor, factor, _COMPRESSIONS[compression], name, process_set)
    dense = [index for index, tensor in enumerate(results) if not isinstance(tensor, tf.IndexedSlices)]
    if dense:
        sent = [_compressed(_scaled(results[i], prescale_factor), _COMPRESSIONS[compression]) for i in dense]
        merge = "sum" if op == "average" else op
        reduced = primitives.reduce(comm, sent, merge, name or "allreduce")
        after = postscale_factor / (comm.size if op == "average" else 1)
        for i, total in zip(dense, reduced, strict=True):
            results[i] = _scaled(tf.cast(total, results[i].dtype), after)
    return results


def reducescatter(tensor: Any, op: str = "average", name: str | None = None, **how: Any) -> tf.Tensor:
    """This task's rows of ``allreduce``, which takes the same arguments.

    The first dimension is divided among the tasks as evenly as can be; where it does not divide, the first tasks have a
    row more.
    """
    return grouped_reducescatter([tensor], op, name, **how)[0]


def grouped_reducescatter(
    tensors: Sequence[Any], op: str = "average", name: str | None = None, **how: Any
) -> list[tf.Tensor]:
    """``reducescatter`` of several tensors in one exchange."""
    tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
    if any(not tensor.shape.rank for tensor in tensors):
        raise InvalidInput("What is scattered has at least one dimension. Received: a scalar", field="tensors")
    reduced = grouped_allreduce(tensors, op, name, **how)
    return [_own_rows(communicator(how.get("process_set")), tensor) for tensor in reduced]


def _own_rows(comm: Communicator, tensor: tf.Tensor) -> tf.Tensor:
    length = tensor.shape[0] if tensor.shape[0] is not None else tf.shape(tensor)[0]
    share, more = length // comm.size, length % comm.size
    first = comm.rank * share + _smaller(comm.rank, more)
    last = (comm.rank + 1) * share + _smaller(comm.rank + 1, more)
    return tensor[first:last]


def _smaller(a: int, b: Any) -> Any:
    return min(a, b) if isinstance(b, int) else tf.minimum(a, b)


def _check(tensor: Any, op: str, scaled: bool) -> None:
    if op not in ("average", *OPS):
        raise InvalidInput(f"op is one of average, {', '.join(OPS)}. Received: {op!r}", field="op")
    if not tensor.dtype.is_floating and (op == "average" or scaled):
        what = 'op="average"' if op == "average" else "a factor"
        raise InvalidInput(f"{what} needs floating-point values. Received: {tensor.dtype.name}", field="op")
    if isinstance(tensor, tf.IndexedSlices) and op not in ("average", "sum"):
        raise InvalidInput(f"IndexedSlices are averaged or summed. Received: op={op!r}", field="op")


def _scaled(tensor: tf.Tensor, factor: float) -> tf.Tensor:
    return tensor if factor == 1 else tensor * tf.cast(factor, tensor.dtype)


def _compressed(tensor: tf.Tensor, dtype: tf.DType | None) -> tf.Tensor:
    return tf.cast(tensor, dtype) if dtype and tensor.dtype.is_floating and tensor.dtype.size > 2 else tensor


def _gathered(
    slices: tf.IndexedSlices, factor: float, dtype: tf.DType | None, name: str | None, process_set: ProcessSet | None
) -> tf.IndexedSlices:
    values = allgather(_compressed(slices.values, dtype), name, process_set)
    indices = allgather(slices.indices, name and f"{name} indices", process_set)
    return tf.IndexedSlices(_scaled(tf.cast(values, slices.values.dtype), factor), indices, slices.dense_shape)
