"""The protocol with which a task requests the contents of Dask partitions from its host.

It uses a Unix socket of the host. The task sends one request, and the host answers with messages until the pass has
ended. Each message consists of its length as eight bytes, little-endian, and a payload (``schema/payload.py``).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Described:
    """The structure that the examples of all partitions share."""

    structure: Any
    """``x``, ``(x,)``, ``(x, y)`` or ``(x, y, sample_weight)``, with the indices of leaves in place of arrays."""
    leaves: tuple[tuple[str, tuple[int, ...]], ...]
    """For each leaf, its dtype and the shape of one example. Strings have the dtype ``object``."""

    def __str__(self) -> str:
        return ", ".join(f"{dtype}{list(shape)}" for dtype, shape in self.leaves)


@dataclass(frozen=True)
class Collection:
    """Partitions that are computed by the cluster's Dask scheduler."""

    keys: tuple[str, ...]
    """The key of each partition, in order."""
    lengths: tuple[int, ...] | None = None
    """The number of examples of each partition, if known before they are computed."""
    graph: bytes | None = None
    """The graph from which partitions are recomputed in every pass; None if they are computed once and then kept."""
    retries: int = 0
    shuffle_buffer: int = 0
    """The smallest number of examples that are shuffled together, if the order is random."""


@dataclass(frozen=True)
class PassRequest:
    """A request by a task for one pass over a collection."""

    run_id: str
    field: str
    collection: Collection
    number: int
    """The number of the pass, from 0."""
    batch_size: int
    rank: int
    size: int
    seed: int | None = None
    described: Described | None = None
    """The expected structure of the partitions; None: request only the structure, and no examples."""
    first: int = 0
    """The number of the batch with which the pass begins."""


@dataclass
class Rows:
    """Consecutive examples of a task's share, in one or more batches."""

    leaves: list[np.ndarray[Any, Any]]
    counts: np.ndarray[Any, Any]
    """The number of examples of each batch. The first batch may continue the last one of the previous message."""
    is_closed: bool
    """Whether the last batch is complete."""
