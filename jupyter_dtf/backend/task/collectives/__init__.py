"""Exchanges between the tasks of a run: one interface (``base``), one module per transport."""

from __future__ import annotations

import hashlib
import os
import platform
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ....errors import InvalidInput, Unavailable
from .base import Alone, Reducer

_made: Counter[str] = Counter()
"""How many reducers this process has made among each set of tasks: each has its memory and its keys."""


def make_reducer(transport: str, ctx: Any, ranks: Sequence[int] | None = None) -> Reducer:
    """The reducer of this task among those of ``ranks``, all of its run by default. A collective among them.

    ``reducer.rank`` counts within ``ranks``, in their order. Where they are on several machines, all tasks of the run
    make one among all first, before TensorFlow has run anything: its own collectives can only be set up then.
    Raises Unavailable if the transport cannot work here.
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
    obstacle = _obstacle_to_shared_memory([ctx.machines[rank] for rank in ranks])
    if transport == "shm" and obstacle:
        raise Unavailable(f'transport="shm" needs all tasks on one x86-64 Linux machine. {obstacle}')
    members = hashlib.sha1(repr(ranks).encode()).hexdigest()[:16]
    key = f"{members}-{_made[members]}"
    _made[members] += 1
    if transport == "ring" or obstacle:
        from .ring import CollectiveReducer

        return CollectiveReducer(ranks.index(ctx.rank), len(ranks), key)
    from .shared_memory import SharedMemoryReducer

    tasks = [ctx.tasks[rank] for rank in ranks]
    return SharedMemoryReducer(
        ctx.shared_dir / f"reduce-{key}", ranks.index(ctx.rank), tasks, _stall_seconds(), _note_stall(ctx)
    )


def _obstacle_to_shared_memory(machines: list[str]) -> str:
    if len(set(machines)) > 1:
        return f"Received tasks on {', '.join(sorted(set(machines)))}"
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        return f"Received: {platform.system()} on {platform.machine()}"
    return ""


def _stall_seconds() -> float:
    """After how long a collective that waits is told of."""
    value = os.environ.get("DTF_STALL_SECONDS", "60")
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise InvalidInput(f"DTF_STALL_SECONDS is a number above 0. Received: {value!r}", field="DTF_STALL_SECONDS")
    return seconds


def _note_stall(ctx: Any) -> Any:
    seconds = _stall_seconds()

    def stalled(missing: list[str], what: str) -> None:
        have = "has" if len(missing) == 1 else "have"
        text = f"{', '.join(missing)} {have} not come after {seconds:g} s" + (f" ({what})" if what else "")
        ctx.note("warning", "A collective waits", text)

    return stalled
