"""A task that is slow is waited for: nobody takes it for one that waits for the others in turn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.backend.task.collectives import make_reducer
from jupyter_dtf.backend.task.collectives.calls import DifferentCalls
from jupyter_dtf.backend.task.collectives.deadlocks import Lookout, Wait
from jupyter_dtf.backend.task.collectives.two_levels import TwoLevelReducer

from .... import patience
from ..gang import FakeContext, run_gang

LOOKS = 4
"""After which a task that waits has said again, and again, that it does."""


def looks_are_counted(ctx: FakeContext) -> None:
    """Leave a file when this task has looked so often in one wait."""
    real = Lookout.look

    def look(self: Lookout, wait: Wait, **options: Any) -> str:
        verdict = real(self, wait, **options)
        if self._mine[wait.group].beat == LOOKS:
            (ctx.shared_dir / f"{ctx.rank}-looks").touch()
        return verdict

    Lookout.look = look  # type: ignore[method-assign]


def until_all_look(directory: Path, ranks: list[int]) -> None:
    patience.until(lambda: all((directory / f"{rank}-looks").exists() for rank in ranks), f"looks of {ranks}")


def test_one_that_begins_late() -> None:
    """Two on one machine wait, one in its memory and one for the network; the third comes when both have looked."""

    def program(ctx: FakeContext) -> float:
        ctx.machines = list("aab")
        looks_are_counted(ctx)
        if ctx.rank == 2:
            until_all_look(ctx.shared_dir, [0, 1])
        reducer = make_reducer("auto", ctx)
        total = float(reducer.sum(np.ones(3))[0])
        reducer.close()
        return total

    assert run_gang(3, program) == [3.0] * 3


@pytest.mark.parametrize("machines", ["aaa", "aba", "abc"])
def test_one_that_comes_when_the_others_know_that_their_calls_differ(machines: str) -> None:
    """All three hear it, and the next call is a call like any other: nobody has given up meanwhile."""

    def program(ctx: FakeContext) -> float:
        ctx.machines = list(machines)
        looks_are_counted(ctx)
        reducer = make_reducer("auto", ctx)
        if ctx.rank == 1:
            until_all_look(ctx.shared_dir, [0, 2])
        with pytest.raises(DifferentCalls, match="float32 .* on worker:"):
            reducer.sum(np.ones(3, np.float64 if ctx.rank == 2 else np.float32))
        total = float(reducer.sum(np.ones(3))[0])
        reducer.close()
        return total

    assert run_gang(3, program) == [3.0] * 3


def test_one_that_tells_its_machine_late() -> None:
    """The first of a machine has what the network brought. The others wait, here for it, there in the next sum."""

    def program(ctx: FakeContext) -> float:
        ctx.machines = list("aab")
        looks_are_counted(ctx)
        reducer = make_reducer("auto", ctx)
        assert isinstance(reducer, TwoLevelReducer)
        if ctx.rank == 0:
            reducer._to_all = _late(reducer._to_all, ctx.shared_dir)  # type: ignore[method-assign]
        totals = [float(reducer.sum(np.ones(3))[0]) for _ in range(2)]
        reducer.close()
        return sum(totals)

    assert run_gang(3, program) == [6.0] * 3


def _late(work: Callable[..., Any], directory: Path) -> Callable[..., Any]:
    once = threading.Lock()

    def late(*args: Any) -> Any:
        if once.acquire(blocking=False):
            until_all_look(directory, [1, 2])
        return work(*args)

    return late


def test_tasks_that_have_failed_count_anew() -> None:
    """One has been in more sums than the others when they begin anew, and is waited for like the others."""

    def program(ctx: FakeContext) -> float:
        ctx.machines = list("aab")
        looks_are_counted(ctx)
        reducer = make_reducer("auto", ctx)
        reducer.sum(np.ones(3))
        if ctx.rank == 0:
            for _ in range(2):
                try:
                    reducer.sum(np.ones(3))
                except RuntimeError:
                    assert reducer.interrupted
        if ctx.rank == 2:
            for looks in ctx.shared_dir.glob("*-looks"):
                looks.unlink()
        reducer.renew()
        if ctx.rank == 2:
            until_all_look(ctx.shared_dir, [0, 1])
        total = float(reducer.sum(np.ones(3))[0])
        reducer.close()
        return total

    assert run_gang(3, program) == [3.0] * 3
