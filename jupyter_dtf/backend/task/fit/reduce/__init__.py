"""Sums over the tasks of a run: one interface (``base``), one module per transport."""

from __future__ import annotations

import platform
from typing import Any

from .....errors import Unavailable
from .....schema.strategy import AllReduce
from .base import Alone, Reducer


def make_reducer(strategy: AllReduce, ctx: Any) -> Reducer:
    """The reducer for this task. Raises Unavailable if the transport asked for cannot work here.

    To be called before TensorFlow has run anything: collectives can only be set up then.
    """
    if ctx.size == 1:
        return Alone()
    obstacle = _obstacle_to_shared_memory(ctx)
    if strategy.transport == "shm" and obstacle:
        raise Unavailable(f'transport="shm" needs all tasks on one x86-64 Linux machine. {obstacle}')
    if strategy.transport == "ring" or obstacle:
        from .collective import CollectiveReducer

        return CollectiveReducer(ctx.rank, ctx.size)
    from .shared_memory import SharedMemoryReducer

    return SharedMemoryReducer(ctx.shared_dir, ctx.rank, ctx.size)


def _obstacle_to_shared_memory(ctx: Any) -> str:
    machines = sorted(set(ctx.machines))
    if len(machines) > 1:
        return f"Received tasks on {', '.join(machines)}"
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        return f"Received: {platform.system()} on {platform.machine()}"
    return ""
