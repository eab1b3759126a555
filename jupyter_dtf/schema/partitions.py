"""What a task asks its host for when it reads partitions that Dask holds, and what it gets.

Over a Unix socket of the host: the task sends one request, the host answers with messages until the pass has ended.
Each is eight bytes, little-endian, that say how long it is, and a payload (``schema/payload.py``).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Described:
    """What the examples of every partition are alike in."""

    structure: Any
    """``x``, ``(x,)``, ``(x, y)`` or ``(x, y, sample_weight)``: numbers of leaves in the place of the arrays."""
    leaves: tuple[tuple[str, tuple[int, ...]], ...]
    """Type and shape of an example of each leaf; of strings the type is ``object``."""

    def __str__(self) -> str:
        return ", ".join(f"{dtype}{list(shape)}" for dtype, shape in self.leaves)


@dataclass(frozen=True)
class Collection:
    """Partitions that are computed by the cluster's Dask scheduler."""

    keys: tuple[str, ...]
    """One for each partition, in order."""
    lengths: tuple[int, ...] | None = None
    """Their numbers of examples, where they are known before they are computed."""
    graph: bytes | None = None
    """What they are computed from, anew in every pass; None where they are computed once, and ``keys`` stay."""
    retries: int = 0
    shuffle_buffer: int = 0
    """Examples that are shuffled among each other, at least, where the order is drawn."""


@dataclass(frozen=True)
class PassRequest:
    """One pass over a collection, by one task."""

    run_id: str
    field: str
    collection: Collection
    number: int
    """Of the pass: 0 is the first."""
    batch_size: int
    rank: int
    size: int
    seed: int | None = None
    described: Described | None = None
    """What the partitions are to be like; None asks for just that, and for no examples."""
    first: int = 0
    """The batch that the pass begins with, in the place of 0."""


@dataclass
class Rows:
    """Examples of a task's share, in order: of batches that follow one another."""

    leaves: list[np.ndarray[Any, Any]]
    counts: np.ndarray[Any, Any]
    """How many of them are of each batch; the first batch may be the last of the message before."""
    is_closed: bool
    """Whether the last batch has all of its examples."""
