"""Reductions between tasks as differentiable TensorFlow functions: dense and sparse, single and grouped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ....errors import InvalidInput
from . import primitives
from .calls import call_name
from .communicator import Communicator, ProcessSet, communicator
from .inputs import check_place, checked, checked_rows
from .primitive import OPS

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
    """Reduce a tensor over the tasks, keeping its shape and dtype. ``op`` is average, sum, min, max or product.

    With ``compression`` "fp16" or "bf16", floating-point values with more bits are sent in that format. The values that
    are sent are multiplied by ``prescale_factor``, and those that are returned by ``postscale_factor``.
    ``tf.IndexedSlices`` are averaged or summed by gathering the slices of all tasks, and stay sparse; if two tasks have
    slices with the same index, both are included.

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
    """Apply ``allreduce`` to several tensors in one exchange, which is faster than one exchange for each."""
    how = _How("allreduce", op, name, compression, prescale_factor, postscale_factor)
    return _reduced(communicator(process_set), [checked(tensor) for tensor in tensors], how)


@dataclass(frozen=True)
class _How:
    """The validated options of a reduction. ``what`` is the name of the called function."""

    what: str
    op: str
    name: str | None
    compression: str
    before: float
    after: float

    def __post_init__(self) -> None:
        if self.compression not in _COMPRESSIONS:
            raise InvalidInput(
                f"`compression` must be one of {', '.join(_COMPRESSIONS)}, got {self.compression!r}",
                field="compression",
            )
        if self.op not in ("average", *OPS):
            raise InvalidInput(f"`op` must be one of average, {', '.join(OPS)}, got {self.op!r}", field="op")

    @property
    def scales(self) -> bool:
        return self.before != 1 or self.after != 1

    @property
    def call(self) -> str:
        """The description of the call, which must be the same in all tasks."""
        options: dict[str, Any] = {"compression": self.compression} if self.compression != "none" else {}
        if self.scales:
            options |= {"prescale_factor": self.before, "postscale_factor": self.after}
        return call_name(f"{self.what} {self.op}", self.name, **options)


def _reduced(comm: Communicator, results: list[Any], how: _How) -> list[Any]:
    check_place()
    for tensor in results:
        _check(tensor, how)
    wire = _COMPRESSIONS[how.compression]
    divisor = comm.size if how.op == "average" else 1
    for index, tensor in enumerate(results):
        if isinstance(tensor, tf.IndexedSlices):
            results[index] = _gathered(comm, tensor, how.before * how.after / divisor, wire, f"{how.call}, slices")
    dense = [index for index, tensor in enumerate(results) if not isinstance(tensor, tf.IndexedSlices)]
    if dense:
        sent = [_compressed(_scaled(results[i], how.before), wire) for i in dense]
        reduced = primitives.reduce(comm, sent, "sum" if how.op == "average" else how.op, how.call)
        for i, total in zip(dense, reduced, strict=True):
            results[i] = _scaled(tf.cast(total, results[i].dtype), how.after / divisor)
    elif not results:
        primitives.meet(comm, f"{how.call} of no tensors")
    return results


def reducescatter(
    tensor: Any,
    op: str = "average",
    name: str | None = None,
    *,
    compression: str = "none",
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet | None = None,
) -> tf.Tensor:
    """Return this task's rows of the result of ``allreduce`` with the same arguments.

    The first dimension is divided as evenly as possible; if there is a remainder, the first tasks get one more row.
    """
    return grouped_reducescatter(
        [tensor],
        op,
        name,
        compression=compression,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set=process_set,
    )[0]


def grouped_reducescatter(
    tensors: Sequence[Any],
    op: str = "average",
    name: str | None = None,
    *,
    compression: str = "none",
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet | None = None,
) -> list[tf.Tensor]:
    """Apply ``reducescatter`` to several tensors in one exchange."""
    comm = communicator(process_set)
    how = _How("reducescatter", op, name, compression, prescale_factor, postscale_factor)
    reduced = _reduced(comm, [checked_rows(tensor) for tensor in tensors], how)
    return [own_rows(comm, tensor) for tensor in reduced]


def own_rows(comm: Communicator, tensor: tf.Tensor) -> tf.Tensor:
    """Return this task's share of a tensor's rows, which are divided among the tasks as evenly as possible."""
    length = tensor.shape[0] if tensor.shape[0] is not None else tf.shape(tensor)[0]
    share, more = length // comm.size, length % comm.size
    first = comm.rank * share + _smaller(comm.rank, more)
    last = (comm.rank + 1) * share + _smaller(comm.rank + 1, more)
    return tensor[first:last]


def _smaller(a: int, b: Any) -> Any:
    return min(a, b) if isinstance(b, int) else tf.minimum(a, b)


def _check(tensor: Any, how: _How) -> None:
    if not tensor.dtype.is_floating and (how.op == "average" or how.scales):
        what = 'op="average"' if how.op == "average" else "a scale factor"
        raise InvalidInput(f"`tensor` must be of a floating-point type for {what}, got {tensor.dtype.name}", field="op")
    if isinstance(tensor, tf.IndexedSlices) and how.op not in ("average", "sum"):
        raise InvalidInput(f"`op` must be average or sum for tf.IndexedSlices, got {how.op!r}", field="op")


def _scaled(tensor: tf.Tensor, factor: float) -> tf.Tensor:
    return tensor if factor == 1 else tensor * tf.cast(factor, tensor.dtype)


def _compressed(tensor: tf.Tensor, dtype: tf.DType | None) -> tf.Tensor:
    return tf.cast(tensor, dtype) if dtype and tensor.dtype.is_floating and tensor.dtype.size > 2 else tensor


def _gathered(
    comm: Communicator, slices: tf.IndexedSlices, factor: float, wire: tf.DType | None, call: str
) -> tf.IndexedSlices:
    values = primitives.gather(comm, _compressed(slices.values, wire), call)
    indices = primitives.gather(comm, slices.indices, f"{call}' indices")
    return tf.IndexedSlices(_scaled(tf.cast(values, slices.values.dtype), factor), indices, slices.dense_shape)
