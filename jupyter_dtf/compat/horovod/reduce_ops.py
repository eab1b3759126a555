"""Reductions and compression of gradients, with Horovod's names."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ...errors import InvalidInput

Average = "average"
Sum = "sum"
Min = "min"
Max = "max"
Product = "product"
Adasum = "adasum"


class Compressor:
    """Determines the form in which a tensor is sent. Programs may define their own compressors with these functions."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the tensor to send, and a context for ``decompress``."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Return the original form of a received tensor."""
        return tensor


class NoneCompressor(Compressor):
    """Sends numbers unchanged."""


class _Cast(Compressor):
    wire = tf.float16

    @classmethod
    def compress(cls, tensor: Any) -> tuple[Any, Any]:
        return (tf.cast(tensor, cls.wire) if tensor.dtype.is_floating else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tf.cast(tensor, ctx)


class FP16Compressor(_Cast):
    """Sends floating-point numbers as float16."""


class BF16Compressor(_Cast):
    """Sends floating-point numbers as bfloat16."""

    wire = tf.bfloat16


class Compression:
    """The available compressors: the numbers unchanged, or rounded to 16 bits."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor


def checked_op(op: str | None, average: bool | None = None) -> str:
    """Return the reduction given by Horovod's two arguments, of which ``average`` is the older form of ``op``.

    Raises InvalidInput if both are given or the reduction is not supported.
    """
    if average is not None:
        if op is not None:
            raise InvalidInput(f"`op` must be None if average is given, got op={op!r}, average={average!r}")
        return Average if average else Sum
    op = Average if op is None else op
    if op == Adasum:
        raise InvalidInput(
            "`op` must be hvd.Average or hvd.Sum instead of Adasum, whose pairwise projections are not supported, got "
            f"{op!r}",
            field="op",
        )
    if op not in (Average, Sum, Min, Max, Product):
        raise InvalidInput(
            f"`op` must be hvd.Average, hvd.Sum, hvd.Min, hvd.Max or hvd.Product, got {op!r}", field="op"
        )
    return op


def checked_compression(compression: Any) -> Any:
    """Return a compressor. The argument is the compressor itself, or a name that ``dtf.allreduce`` accepts.

    Raises InvalidInput for anything else.
    """
    found = getattr(Compression, compression, None) if isinstance(compression, str) else compression
    if not (callable(getattr(found, "compress", None)) and callable(getattr(found, "decompress", None))):
        raise InvalidInput(
            "`compression` must be hvd.Compression.none, .fp16 or .bf16, or have functions compress and decompress, "
            f"got {compression!r}",
            field="compression",
        )
    return found
