"""How gradients are combined and what of them travels: Horovod's names for what ``ops`` takes as words."""

from __future__ import annotations

from typing import Any

from ...errors import InvalidInput

Average = "average"
Sum = "sum"
Min = "min"
Max = "max"
Product = "product"
Adasum = "adasum"


class Compression:
    """What travels: the numbers as they are, or rounded to 16 bits."""

    none = "none"
    fp16 = "fp16"
    bf16 = "bf16"


def checked_op(op: str | None, average: bool | None = None) -> str:
    """The reduction that Horovod's two arguments ask for; ``average`` is its older spelling of ``op``.

    Raises InvalidInput if both are given or the reduction is not one of ours.
    """
    if average is not None:
        if op is not None:
            raise InvalidInput(f"A reduction takes op or average, not both. Received: op={op!r}, average={average!r}")
        return Average if average else Sum
    op = Average if op is None else op
    if op == Adasum:
        raise InvalidInput(
            "Adasum is not offered: its pairwise projections need an all-reduce of their own. "
            f"op is hvd.Average or hvd.Sum. Received: {op!r}",
            field="op",
        )
    if op not in (Average, Sum, Min, Max, Product):
        raise InvalidInput(f"op is hvd.Average, hvd.Sum, hvd.Min, hvd.Max or hvd.Product. Received: {op!r}", field="op")
    return op


def checked_compression(compression: Any) -> str:
    """Raises InvalidInput for a compressor of the program's own."""
    if compression not in (Compression.none, Compression.fp16, Compression.bf16):
        raise InvalidInput(
            "compression is hvd.Compression.none, hvd.Compression.fp16 or hvd.Compression.bf16. "
            f"Received: {compression!r}",
            field="compression",
        )
    return str(compression)
