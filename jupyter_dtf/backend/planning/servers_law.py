"""Models steps with synchronous and asynchronous parameter servers, and steps of one client with replicas. Pure.

Variables and gradients of S bytes are divided among p servers. A worker's link carries S each way; a server's link
carries S / p each way for every worker. Each update changes S / p on every server.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...schema.placement import Link
from .allreduce_time import hidden
from .order_statistics import expected, slowest
from .workload import Workload


@dataclass(frozen=True)
class ServerStep:
    """The times of one step of a worker."""

    compute_s: float
    """Seconds of computation; less than the mean if the step does not wait for slow workers."""
    exchange_s: float
    """Seconds of transfers, which compete only with transfers of the same step."""
    update_s: float
    idle_s: float
    """Seconds of waiting for slower workers, or for a server that is busy with other workers."""
    steps_per_s: float
    """Steps per second of each worker."""
    dropped: float = 0.0
    """The fraction of the gradients that arrive too late."""


def synchronous(
    compute_s: float,
    size: float,
    workers: int,
    servers: int,
    link: Link,
    *,
    update_s: float,
    variation: float,
    backup: int,
) -> ServerStep:
    """Model a step in which all workers send gradients, the mean is applied once, and all workers fetch the variables.

    ``size``: bytes of all variables. With ``backup`` workers, the step ends without the last ``backup`` gradients,
    which are still sent.
    """
    counted = workers - backup
    last = expected(counted, workers, variation) if backup else slowest(workers, variation)
    one_way = size * max(1.0, workers / servers) / link.bytes_per_s
    exchange = 2 * one_way + 2 * link.latency_s
    update = update_s / servers
    computing, idle = compute_s * min(last, 1.0), compute_s * max(last - 1, 0.0)
    step = computing + idle + exchange + update
    return ServerStep(computing, exchange, update, idle, 1 / step, backup / workers)


def overlapped(work: Workload, examples: float, per_byte_s: float, latency_s: float) -> tuple[float, float]:
    """Return the hidden and the exposed seconds of transfers if the transfer of each tensor overlaps with computation.

    The transfers send gradients and fetch variables. TensorFlow's parameter servers work like this; in this project,
    workers send all gradients together when all are ready. ``per_byte_s``: seconds per byte on the busiest link.
    """
    ends = work.backward_ends_s(examples)
    sending, late = hidden(work.gradient_bytes[::-1], ends[::-1], per_byte_s, latency_s, 0.0)
    begins = np.cumsum(work.forward_s) * examples
    needed = float(begins[-1]) - begins[::-1] if begins.size else begins
    fetching, early = hidden(work.gradient_bytes[::-1], needed, per_byte_s, latency_s, 0.0)
    return sending + fetching - late - early, late + early


def asynchronous(
    compute_s: float, size: float, workers: int, servers: int, link: Link, *, update_s: float
) -> ServerStep:
    """Model workers that run at their own pace: a closed queueing network whose servers serve one worker at a time.

    Uses mean value analysis with Schweitzer's approximation (1979): computing and sending are think time, and the
    servers are one station, because a gradient is sent to all of them simultaneously. Links are full duplex.
    """
    own = 2 * size / link.bytes_per_s + 2 * link.latency_s
    served = size / servers / link.bytes_per_s
    update = update_s / servers
    demand = max(served, update)
    think = compute_s + own + update - demand
    excess = think - demand * workers
    response = (math.sqrt(excess**2 + 4 * demand * think) - excess) / 2
    step = think + response
    return ServerStep(compute_s, own, update, max(0.0, response - demand), 1 / step)


def one_client(size: float, replicas: int, link: Link) -> float:
    """Return the seconds that replicas need to fetch variables from one device and return gradients, one by one."""
    return 0.0 if replicas < 2 else 2 * (replicas - 1) * size / link.bytes_per_s + 2 * link.latency_s
