"""Collective communication between the tasks of a run: one interface (``primitive``), one module per transport."""

from __future__ import annotations

import hashlib
import platform
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....errors import InvalidInput, Unavailable
from ..context import stays_in_gang
from .primitive import Alone, Reducer

if TYPE_CHECKING:
    from .deadlocks import Board, Lookout

_made: Counter[str] = Counter()
"""The number of reducers that this process has created for each set of tasks. It is part of the names of each reducer's
memory and keys.
"""


def make_reducer(transport: str, ctx: Any, ranks: Sequence[int] | None = None) -> Reducer:
    """Create this task's reducer for a set of tasks. Every task in the set must call this.

    Tasks on one machine use shared memory, unless ``transport`` is "tcp" or "ring". Tasks on several machines use "tcp"
    or "ring"; "auto" chooses between these according to the run's GPUs. If machines have several tasks, only one task
    on each machine uses the network. "ring" means TensorFlow's own collectives, which can be set up only before
    TensorFlow has run anything. Therefore the first reducer that a task creates must be one for all tasks of the run.

    Args:
        transport: "auto", "shm", "tcp" or "ring".
        ctx: The context of this task.
        ranks: The ranks of the set, by default all ranks of the run. ``reducer.rank`` is this task's index in the list.

    Raises:
        InvalidInput: If the ranks are not valid.
        Unavailable: If the transport does not work for these tasks.
    """
    ranks = list(range(ctx.size)) if ranks is None else list(ranks)
    if len(set(ranks)) < len(ranks) or not set(ranks) <= set(range(ctx.size)) or ctx.rank not in ranks:
        raise InvalidInput(
            f"`ranks` must be distinct ranks from 0 to {ctx.size - 1} and include this task's rank {ctx.rank}, got "
            f"{ranks}",
            field="ranks",
        )
    if len(ranks) == 1:
        return Alone()
    machines = [ctx.machines[rank] for rank in ranks]
    obstacle = _obstacle_to_shared_memory()
    if transport == "shm" and (obstacle or len(set(machines)) > 1):
        received = obstacle or f"tasks on {', '.join(sorted(set(machines)))}"
        raise Unavailable(f'transport="shm" requires that all tasks are on one x86-64 Linux machine, got {received}')
    members = hashlib.sha1(repr(ranks).encode()).hexdigest()[:16]
    key = f"{members}-{_made[members]}"
    _made[members] += 1
    if sum(_made.values()) > 1:
        stays_in_gang()  # reducers created by the program itself would remain connected to lost tasks
    if len(set(machines)) == 1 and transport in ("auto", "shm") and not obstacle:
        return _in_memory(ctx, ranks, key)
    by = ctx.between_machines if transport == "auto" else transport
    by_machine = 1 < len(set(machines)) < len(ranks) and not obstacle
    return (_by_tcp if by == "tcp" else _by_ring)(ctx, ranks, key, by_machine)


def begin_anew() -> None:
    """Forget all reducers of this process, which must already be closed. Called when it joins another attempt of its
    run.
    """
    from .tcp.links import forget_links

    _made.clear()
    _lookouts.clear()
    forget_links()


def _lookout(ctx: Any, by: str) -> Lookout:
    """Return the lookout for waits of kind ``by`` (``memory``, ``tcp`` or ``ring``) that this task's reducers share."""
    from .deadlocks import Files, Keys, Lookout

    if by == "memory" and len(set(ctx.machines)) > 1:
        by = ctx.between_machines  # other tasks of the run may be waiting in other sets
    if by not in _lookouts:
        if by == "memory":
            board: Board = Files(ctx.shared_dir / "waits")
        elif by == "tcp":
            from .tcp.key_board import KeyBoard
            from .tcp.links import links_of

            board = KeyBoard(links_of(ctx))
        else:
            board = Keys()
        _lookouts[by] = Lookout(board, ctx.rank, ctx.tasks)
    return _lookouts[by]


_lookouts: dict[str, Lookout] = {}


def _in_memory(ctx: Any, ranks: list[int], key: str) -> Reducer:
    from .shared_memory import SharedMemoryReducer
    from .stall import note_stalls, stall_seconds

    tasks = [ctx.tasks[rank] for rank in ranks]
    path = ctx.shared_dir / f"reduce-{key}"
    lookout = _lookout(ctx, "memory")
    return SharedMemoryReducer(
        path, ranks.index(ctx.rank), tasks, stall_seconds(), note_stalls(ctx), lookout=lookout, ranks=ranks
    )


def _leaders(ctx: Any, ranks: list[int]) -> list[int]:
    """Return the rank of the first task on each machine, in the order of ``ranks``."""
    return sorted({ctx.machines[r]: r for r in reversed(ranks)}.values(), key=ranks.index)


def _by_tcp(ctx: Any, ranks: list[int], key: str, by_machine: bool) -> Reducer:
    from .group_wait import WholeWait
    from .shared_memory import SharedMemoryReducer
    from .stall import note_stalls, stall_seconds
    from .tcp.links import links_of
    from .tcp.tcp_reducer import TcpReducer
    from .tcp.traffic import Traffic
    from .two_levels import TwoLevelReducer

    links = links_of(ctx)
    tasks = [ctx.tasks[r] for r in ranks]
    lookout, stalled = _lookout(ctx, "tcp"), note_stalls(ctx)
    wait = WholeWait(key, ctx.rank, ranks, tasks, lookout=lookout, stall_s=stall_seconds(), stalled=stalled)

    def told(text: str) -> None:
        ctx.note("info", "Exchanges with other machines", text)

    traffic = Traffic(ctx.task, ctx.measured, told, lambda: ctx.last_step)
    rank = ranks.index(ctx.rank)
    if not by_machine:
        return TcpReducer(links, key, rank, ranks, tasks, wait=wait, traffic=traffic)
    leaders = _leaders(ctx, ranks)
    places = [[r for r in ranks if ctx.machines[r] == ctx.machines[leader]] for leader in leaders]
    here = next(place for place in places if ctx.rank in place)

    def local() -> SharedMemoryReducer:
        names = [ctx.tasks[r] for r in here]
        path = ctx.shared_dir / f"reduce-{key}-of-{here[0]}"
        return SharedMemoryReducer(path, here.index(ctx.rank), names, float("inf"), lookout=wait, ranks=here)

    def between() -> TcpReducer:
        names = [ctx.tasks[r] for r in leaders]
        at = leaders.index(ctx.rank)
        return TcpReducer(links, f"{key}-leaders", at, leaders, names, wait=wait, traffic=traffic)

    within = [[ranks.index(r) for r in place] for place in places]
    return TwoLevelReducer(
        rank,
        tasks,
        within,
        local if len(here) > 1 else None,
        between if ctx.rank in leaders else None,
        wait=wait,
    )


def _by_ring(ctx: Any, ranks: list[int], key: str, by_machine: bool) -> Reducer:
    from .hierarchical import HierarchicalReducer
    from .ring import CollectiveReducer, start_collectives
    from .shared_memory import SharedMemoryReducer
    from .stall import WatchedReducer, note_stalls, stall_seconds

    start_collectives()
    rank = ranks.index(ctx.rank)
    reducer: Reducer
    if by_machine:
        own = ctx.machines[ctx.rank]
        local = [r for r in ranks if ctx.machines[r] == own]
        leaders = _leaders(ctx, ranks)
        # A task that waits in shared memory may also be waiting for the network, so only the combined reducer is
        # watched.
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
        lookout=_lookout(ctx, "ring"),
        stall_s=stall_seconds(),
        stalled=note_stalls(ctx),
    )


def _obstacle_to_shared_memory() -> str:
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        return f"{platform.system()} on {platform.machine()}"
    return ""
