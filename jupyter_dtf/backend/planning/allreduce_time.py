"""Models the duration of all-reduces, and how much of it overlaps with the backward pass. Pure.

For S bytes, n tasks, and links with a bandwidth of B bytes per second and a latency of a seconds (Hockney's model,
with the costs of Thakur, Rabenseifner and Gropp 2005):

* ring: each task sends 2 (n - 1) / n S, in 2 (n - 1) pieces: 2 (n - 1) / n S / B + 2 (n - 1) a
* tree: pieces are pipelined up and down a tree: 2 S / B + 2 log2(n) a
* hierarchical: a ring within each machine, then a ring of all machines that carries S, then the inner rings again
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...schema.placement import Link
from .costs import Floats
from .networks import Fabric

BUCKET_BYTES = 4 << 20
"""The size of the buckets in which gradients are sent between machines during the backward pass, as in
``dtf.AllReduce``."""
LOCAL_BUCKET_BYTES = 64 << 20
"""The size of the buckets in which gradients are sent within a machine."""
RING_PIPELINE = 8
"""The number of buckets that are in flight in a ring at the same time and share the latency of its links."""


@dataclass(frozen=True)
class Exchange:
    """The gradient exchange of a task in one step: its seconds during and after computation, and the bytes sent."""

    hidden_s: float
    exposed_s: float
    sent_bytes: float


def ring_s(size: float, count: int, link: Link) -> float:
    """Return the seconds that a ring all-reduce of ``size`` bytes among ``count`` tasks takes."""
    if count < 2:
        return 0.0
    return 2 * (count - 1) / count * size / link.bytes_per_s + 2 * (count - 1) * link.latency_s


def tree_s(size: float, count: int, link: Link) -> float:
    """Return the seconds that a tree all-reduce of ``size`` bytes among ``count`` tasks takes."""
    if count < 2:
        return 0.0
    return 2 * size / link.bytes_per_s + 2 * math.ceil(math.log2(count)) * link.latency_s


def allreduce_s(size: float, tasks: int, fabric: Fabric, algorithm: str) -> float:
    """Return the seconds that an all-reduce of ``size`` bytes takes.

    ``algorithm`` is ``ring``, ``hierarchical``, ``tree`` or ``auto``, which means hierarchical.
    """
    machines, local = fabric.machines(tasks), min(tasks, fabric.per_machine)
    if machines == 1:
        return tree_s(size, tasks, fabric.within) if algorithm == "tree" else ring_s(size, tasks, fabric.within)
    if algorithm in ("auto", "hierarchical"):
        return ring_s(size, local, fabric.within) + ring_s(size, machines, fabric.between)
    if algorithm == "tree":
        return tree_s(size, local, fabric.within) + tree_s(size, machines, fabric.between)
    # A ring through all tasks crosses each machine's network once in each direction, so the slower link limits it.
    slower = fabric.between if fabric.between.bytes_per_s < fabric.within.bytes_per_s else fabric.within
    latency = ring_s(0.0, tasks, fabric.within) + ring_s(0.0, machines, fabric.between)
    return 2 * (tasks - 1) / tasks * size / slower.bytes_per_s + latency


def sent_bytes(size: float, tasks: int) -> float:
    """Return how many bytes each task sends. This is the same for all algorithms here, except at the root of a tree."""
    return 2 * (tasks - 1) / tasks * size


def overlapped(
    gradient_bytes: Floats,
    ready_s: Floats,
    tasks: int,
    fabric: Fabric,
    algorithm: str,
    *,
    share: float = 1.0,
    overlaps: bool = True,
) -> Exchange:
    """Return the exchange of a step's gradients, which are sent in consecutive buckets, those of the last layers first.

    ``ready_s``: the times at which the gradients of each layer are ready. ``share``: the fraction of their bytes that
    is sent, less than 1 with compression. If the device cannot exchange gradients and compute at the same time
    (``overlaps``), the whole exchange follows the backward pass.
    """
    size = float(gradient_bytes.sum()) * share
    if tasks < 2 or not size:
        return Exchange(0.0, 0.0, 0.0)
    sent = sent_bytes(size, tasks)
    if not overlaps:
        return Exchange(0.0, allreduce_s(size, tasks, fabric, algorithm), sent)
    limit = BUCKET_BYTES if fabric.machines(tasks) > 1 else LOCAL_BUCKET_BYTES
    latency = allreduce_s(0.0, tasks, fabric, algorithm)
    per_byte = (allreduce_s(size, tasks, fabric, algorithm) - latency) / size
    busy, exposed = hidden(gradient_bytes[::-1] * share, ready_s[::-1], per_byte, latency, limit)
    return Exchange(busy - exposed, exposed, sent)


def hidden(sizes: Floats, ready_s: Floats, per_byte: float, latency: float, limit: float) -> tuple[float, float]:
    """Return a pair: the seconds spent sending the tensors in consecutive buckets, and the part of these seconds after
    all tensors are ready.

    ``ready_s``: the times at which the tensors are ready, in the same order.
    """
    free = busy = 0.0
    for bucket, there in zip(*_buckets(sizes, ready_s, limit), strict=True):
        duration = bucket * per_byte + latency / RING_PIPELINE
        free = max(free, there) + duration
        busy += duration
    rest = latency * (1 - 1 / RING_PIPELINE)
    busy += rest
    return busy, min(busy, max(0.0, free + rest - float(ready_s.max(initial=0.0))))


def _buckets(sizes: Floats, ready: Floats, limit: float) -> tuple[list[float], list[float]]:
    """Group tensors into buckets of ``limit`` bytes (0: one tensor each).

    Return the bytes of each bucket and the time at which it is full.
    """
    if not sizes.size:
        return [], []
    if limit:
        number = np.floor_divide(np.cumsum(sizes) - sizes / 2, limit)
        first = np.flatnonzero(np.diff(number, prepend=-1.0))
    else:
        first = np.arange(sizes.size)
    last = np.append(first[1:], sizes.size) - 1
    return np.add.reduceat(sizes, first).tolist(), np.maximum.accumulate(ready)[last].tolist()
