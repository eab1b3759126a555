"""Tests of slow tasks: the others wait for them, and do not mistake them for tasks in a deadlock."""

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
"""The number of checks after which a waiting task has reported its wait repeatedly."""


def looks_are_counted(ctx: FakeContext) -> None:
    """Make this task create a file when it has checked the board ``LOOKS`` times in one wait."""
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
    """The sum succeeds if a task begins late, while two on another machine wait, in its memory and for the network."""

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
    """All three tasks get the error, and the next call succeeds: no task has given up in the meantime."""

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
    """Sums succeed if the first task of a machine is late in passing on what it has received over the network.

    Meanwhile, the other task on its machine waits for it, and the task on the other machine waits in the next sum.
    """

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
    """After ``renew``, sums succeed although one task has been in more sums than the others, and another is late."""

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
