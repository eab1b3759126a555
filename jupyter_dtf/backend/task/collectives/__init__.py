"""Exchanges between the tasks of a run: one interface (``base``), one module per transport."""

from __future__ import annotations

import hashlib
import platform
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....errors import InvalidInput, Unavailable
from .base import Alone, Reducer

if TYPE_CHECKING:
    from .lookout import Lookout

_made: Counter[str] = Counter()
"""How many reducers this process has made among each set of tasks: each has its memory and its keys."""


def make_reducer(transport: str, ctx: Any, ranks: Sequence[int] | None = None) -> Reducer:
    """The reducer of this task among those of ``ranks``, all of its run by default. A collective among them.

    ``reducer.rank`` counts within ``ranks``, in their order. Tasks of one machine use its memory, unless ``transport``
    is "ring". Between machines it is TensorFlow's own collectives, between one task of each where some hold several;
    all tasks of the run then make a reducer among all first, before TensorFlow has run anything: collectives can only
    be set up then. Raises InvalidInput for ranks that are none, Unavailable if the transport cannot work here.
    """
    ranks = list(range(ctx.size)) if ranks is None else list(ranks)
    if len(set(ranks)) < len(ranks) or not set(ranks) <= set(range(ctx.size)) or ctx.rank not in ranks:
        raise InvalidInput(
            f"ranks are different ones of the {ctx.size} of the run, this task's ({ctx.rank}) among them. "
            f"Received: {ranks}",
            field="ranks",
        )
    if len(ranks) == 1:
        return Alone()
    machines = [ctx.machines[rank] for rank in ranks]
    obstacle = _obstacle_to_shared_memory()
    if transport == "shm" and (obstacle or len(set(machines)) > 1):
        received = obstacle or f"tasks on {', '.join(sorted(set(machines)))}"
        raise Unavailable(f'transport="shm" needs all tasks on one x86-64 Linux machine. Received: {received}')
    members = hashlib.sha1(repr(ranks).encode()).hexdigest()[:16]
    key = f"{members}-{_made[members]}"
    _made[members] += 1
    if len(set(machines)) == 1 and transport != "ring" and not obstacle:
        return _in_memory(ctx, ranks, key)
    return _between_machines(ctx, ranks, key, hierarchical=1 < len(set(machines)) < len(ranks) and not obstacle)


def _lookout(ctx: Any) -> Lookout:
    """This task's, one for all its reducers."""
    from .lookout import Files, Keys, Lookout

    global _found
    if _found is None:
        several = len(set(ctx.machines)) > 1
        _found = Lookout(Keys() if several else Files(ctx.shared_dir / "waits"), ctx.rank, ctx.tasks)
    return _found


_found: Lookout | None = None


def _in_memory(ctx: Any, ranks: list[int], key: str) -> Reducer:
    from .shared_memory import SharedMemoryReducer
    from .stall import note_stalls, stall_seconds

    tasks = [ctx.tasks[rank] for rank in ranks]
    path = ctx.shared_dir / f"reduce-{key}"
    lookout = _lookout(ctx)
    return SharedMemoryReducer(
        path, ranks.index(ctx.rank), tasks, stall_seconds(), note_stalls(ctx), lookout=lookout, ranks=ranks
    )


def _between_machines(ctx: Any, ranks: list[int], key: str, hierarchical: bool) -> Reducer:
    from .hierarchical import HierarchicalReducer
    from .ring import CollectiveReducer, start_collectives
    from .shared_memory import SharedMemoryReducer
    from .stall import WatchedReducer, note_stalls, stall_seconds

    start_collectives()
    rank = ranks.index(ctx.rank)
    reducer: Reducer
    if hierarchical:
        own = ctx.machines[ctx.rank]
        local = [r for r in ranks if ctx.machines[r] == own]
        leaders = sorted({ctx.machines[r]: r for r in reversed(ranks)}.values(), key=ranks.index)
        # Who waits in the memory waits for the network as well: only the whole is watched.
        path = ctx.shared_dir / f"reduce-{key}-of-{local[0]}"
        memory = (
            SharedMemoryReducer(path, local.index(ctx.rank), [ctx.tasks[r] for r in local], float("inf"))
            if len(local) > 1
            else Alone()
        )
        between = CollectiveReducer(leaders.index(ctx.rank), len(leaders), key) if ctx.rank in leaders else None
        reducer = HierarchicalReducer(rank, len(ranks), memory, between)
    else:
        reducer = CollectiveReducer(rank, len(ranks), key)
    return WatchedReducer(
        reducer,
        group=key,
        ranks=ranks,
        tasks=[ctx.tasks[r] for r in ranks],
        lookout=_lookout(ctx),
        stall_s=stall_seconds(),
        stalled=note_stalls(ctx),
    )


def _obstacle_to_shared_memory() -> str:
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        return f"{platform.system()} on {platform.machine()}"
    return ""
