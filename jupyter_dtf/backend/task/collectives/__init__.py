"""Exchanges between the tasks of a run: one interface (``base``), one module per transport."""

from __future__ import annotations

import hashlib
import platform
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....errors import InvalidInput, Unavailable
from ..context import stays_in_gang
from .contract import Alone, Reducer

if TYPE_CHECKING:
    from .lookout import Board, Lookout

_made: Counter[str] = Counter()
"""How many reducers this process has made among each set of tasks: each has its memory and its keys."""


def make_reducer(transport: str, ctx: Any, ranks: Sequence[int] | None = None) -> Reducer:
    """The reducer of this task among those of ``ranks``, all of its run by default. A collective among them.

    ``reducer.rank`` counts within ``ranks``, in their order. Tasks of one machine use its memory, unless ``transport``
    is "tcp" or "ring". Between machines, where "auto" is what the run's GPUs ask for, it is one of these two, between
    one task of each machine where some hold several. "ring" is TensorFlow's own collectives: all tasks of the run then
    make a reducer among all first, before TensorFlow has run anything, for they can only be set up then. Raises
    InvalidInput for ranks that are none, Unavailable if the transport cannot work here.
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
    if sum(_made.values()) > 1:
        stays_in_gang()  # what the program has made for itself would stay with tasks that are gone
    if len(set(machines)) == 1 and transport in ("auto", "shm") and not obstacle:
        return _in_memory(ctx, ranks, key)
    by = ctx.between_machines if transport == "auto" else transport
    by_machine = 1 < len(set(machines)) < len(ranks) and not obstacle
    return (_by_tcp if by == "tcp" else _by_ring)(ctx, ranks, key, by_machine)


def begin_anew() -> None:
    """Forget all reducers of this process, which goes over to another attempt of its run; they are closed already."""
    from .tcp.links import forget_links

    _made.clear()
    _lookouts.clear()
    forget_links()


def _lookout(ctx: Any, by: str) -> Lookout:
    """This task's, one for all its reducers that wait in this way: by ``memory``, ``tcp`` or the ``ring``."""
    from .lookout import Files, Keys, Lookout

    if by == "memory" and len(set(ctx.machines)) > 1:
        by = ctx.between_machines  # the others of the run may wait in other sets
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
    """The first task of each machine."""
    return sorted({ctx.machines[r]: r for r in reversed(ranks)}.values(), key=ranks.index)


def _by_tcp(ctx: Any, ranks: list[int], key: str, by_machine: bool) -> Reducer:
    from .shared_memory import SharedMemoryReducer
    from .stall import note_stalls, stall_seconds
    from .tcp.links import links_of
    from .tcp.tcp_reducer import TcpReducer
    from .tcp.traffic import Traffic
    from .two_levels import TwoLevelReducer
    from .whole_wait import WholeWait

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
        lookout=_lookout(ctx, "ring"),
        stall_s=stall_seconds(),
        stalled=note_stalls(ctx),
    )


def _obstacle_to_shared_memory() -> str:
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        return f"{platform.system()} on {platform.machine()}"
    return ""
