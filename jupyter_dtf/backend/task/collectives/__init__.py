"""Sums over the tasks of a run: one interface (``base``), one module per transport."""

from __future__ import annotations

import platform
from typing import Any

from ....errors import Unavailable
from .base import Alone, Reducer


def make_reducer(transport: str, ctx: Any) -> Reducer:
    """The reducer of this task among all tasks of its run. Raises Unavailable if the transport cannot work here.

    To be called before TensorFlow has run anything: collectives can only be set up then.
    """
    if ctx.size == 1:
        return Alone()
    obstacle = _obstacle_to_shared_memory(ctx)
    if transport == "shm" and obstacle:
        raise Unavailable(f'transport="shm" needs all tasks on one x86-64 Linux machine. {obstacle}')
    if transport == "ring" or obstacle:
        from .ring import CollectiveReducer

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
