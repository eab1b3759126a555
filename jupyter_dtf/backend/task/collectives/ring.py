"""Collectives based on TensorFlow's own collectives, which work between machines."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import tensorflow as tf

from ....errors import Unavailable
from .primitive import Reducer, check_op

_KEYS = 0x7FFFFFF0  # the number of instance keys: 31 bits, minus one key per dtype

_MERGES = {"sum": "Add", "min": "Min", "max": "Max", "product": "Mul"}
_SENT_AS = {
    tf.bool: tf.int32,
    tf.uint8: tf.int32,
    tf.uint16: tf.int32,
    tf.uint32: tf.int64,
    tf.int8: tf.int32,
    tf.int16: tf.int32,
}
"""The dtypes to which tensors of unsupported dtypes are converted."""
_SENT_BY_GPU_AS = {tf.int32: tf.int64, tf.bfloat16: tf.float32}
"""The replacements for dtypes that TensorFlow 2.21's collectives reject only on GPUs."""


class CollectiveReducer(Reducer):
    """A reducer that uses ``CollectiveReduceV2`` between ``size`` tasks in TF_CONFIG, all with the same ``key``."""

    def __init__(self, rank: int, size: int, key: str) -> None:
        super().__init__(rank, size)
        self._strategy = start_collectives()
        self._device = self._strategy.extended.worker_devices[0]
        self._group_key = _key(key)
        self._hint = _communication_hint()
        self._on_gpu = "/device:GPU:" in self._device

    def reduce_tensors(self, tensors: Sequence[tf.Tensor], op: str, name: str) -> list[tf.Tensor]:
        for tensor in tensors:
            check_op(op, tensor.dtype)
        groups: dict[tf.DType, list[int]] = {}
        for index, tensor in enumerate(tensors):
            groups.setdefault(self._sent_as(tensor.dtype), []).append(index)
        results: list[Any] = [None] * len(tensors)
        # The key depends on all tensors and dtypes: a call must not match a different one that sends similar data.
        key = _instance_key(f"{name} {op} {[t.dtype.name for t in tensors]}", tensors)
        for number, (dtype, indices) in enumerate(groups.items()):
            sent = [tf.cast(tensors[i], dtype) for i in indices]
            if len(sent) == 1:
                reduced = [self._reduce(sent[0], op, key + number)]
            else:
                flat = self._reduce(tf.concat([tf.reshape(t, [-1]) for t in sent], 0), op, key + number)
                parts = tf.split(flat, [tf.size(t) for t in sent], num=len(sent))
                reduced = [tf.reshape(p, tf.shape(t)) for p, t in zip(parts, sent, strict=True)]
            for index, total in zip(indices, reduced, strict=True):
                results[index] = tf.ensure_shape(tf.cast(total, tensors[index].dtype), tensors[index].shape)
        return results

    def _sent_as(self, dtype: tf.DType) -> tf.DType:
        sent = _SENT_AS.get(dtype, dtype)
        return _SENT_BY_GPU_AS.get(sent, sent) if self._on_gpu else sent

    def _reduce(self, tensor: tf.Tensor, op: str, key: Any) -> tf.Tensor:
        with tf.device(self._device):
            return tf.raw_ops.CollectiveReduceV2(
                input=tensor,
                group_size=self.size,
                group_key=self._group_key,
                instance_key=key,
                ordering_token=[],
                merge_op=_MERGES[op],
                final_op="Id",
                communication_hint=self._hint,
            )

    def give_up(self, why: str) -> None:
        """Make all collectives of this process fail from now on, because TensorFlow cannot abort a single one."""
        # TensorFlow 2.21: the runtime context has no public API for this.
        from tensorflow.python.eager import context

        context.context().abort_collective_ops(tf.errors.FAILED_PRECONDITION, why)

    def close(self, failed: bool = False) -> None:
        pass


@cache
def start_collectives() -> Any:
    """Set up TensorFlow's collectives between the tasks of TF_CONFIG, all of which must call this function.

    The creation of the strategy starts this task's server and waits for the servers of the other tasks. The strategy
    has no other use. Raises Unavailable if TensorFlow has already been used.
    """
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:
        if "program startup" not in str(error):
            raise
        raise Unavailable(
            "Between machines, the first collective must precede any other use of TensorFlow, including variables and "
            "models: call dtf.barrier() at the beginning of the program"
        ) from error


def _communication_hint() -> str:
    """Return ``nccl`` if this task has GPUs that it does not share, otherwise ``auto``.

    NCCL rejects a GPU that tasks share. A GPU with a memory limit is shared.
    """
    gpus = tf.config.list_physical_devices("GPU")
    shared = any(tf.config.get_logical_device_configuration(gpu) for gpu in gpus)
    return "nccl" if gpus and not shared else "auto"


def _instance_key(text: str, tensors: Sequence[tf.Tensor]) -> Any:
    """Return a key for a description and the tensors' shapes. It is the same for static and dynamic shapes.

    The key includes the shapes because an instance has a fixed shape. Callers may add a small number, one per dtype.
    """
    known = all(tensor.shape.is_fully_defined() for tensor in tensors)
    key: Any = _key(text)
    for tensor in tensors:
        lengths = tensor.shape.as_list() if known else tf.unstack(tf.shape(tensor, tf.int64), len(tensor.shape))
        for length in [len(lengths), *lengths]:
            key = (key * 31 + length) % _KEYS
    return key if known else tf.cast(key, tf.int32)


def _key(text: str) -> int:
    return zlib.crc32(text.encode()) % _KEYS
