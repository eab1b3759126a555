"""Tests of reports of stalled collectives: each stall is reported once, with the names of the missing tasks."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from jupyter_dtf.errors import InvalidInput

from .... import patience
from ..gang import FakeContext, run_gang


def appeared(path: Path) -> bool:
    """Wait for a file for at most ``patience.LIMIT_S`` seconds. Return whether it exists."""
    end = time.monotonic() + patience.LIMIT_S
    while not path.exists() and time.monotonic() < end:
        time.sleep(patience.LOOK_EVERY_S)
    return path.exists()


@pytest.mark.parametrize("machines", ["aaa", "abb"])
def test_who_is_missing_is_named_once_for_each_stall(machines: str) -> None:
    def program(ctx: FakeContext) -> list[tuple[str, str, str]]:
        import tensorflow as tf

        from jupyter_dtf.backend.task.collectives import make_reducer

        os.environ["DTF_STALL_SECONDS"] = "0.4"
        ctx.machines = list(machines)
        noted = iter(["noted-0", "noted-1"])
        keep = ctx.note

        def note(level: str, title: str, text: str = "", *, mark: str = "") -> None:
            keep(level, title, text)
            (ctx.run_dir / next(noted)).touch()

        ctx.note = note  # type: ignore[method-assign]
        reducer = make_reducer("auto", ctx)
        traced = tf.function(lambda t: reducer.sum_tensor(t, "a"), autograph=False)
        for stall in range(2):
            traced(tf.ones(2))
            if ctx.rank == 2:
                assert appeared(ctx.run_dir / f"noted-{stall}")
            assert traced(tf.ones(2)).numpy().tolist() == [3.0, 3.0]
        reducer.close()
        return ctx.notes

    first, *others = run_gang(3, program)
    text = "worker:2 has not arrived after 0.4 s (a of float32 [2])"
    assert first == [("warning", "A collective is waiting", text)] * 2
    assert others == [[], []]


def test_the_time_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_dtf.backend.task.collectives.stall import stall_seconds

    assert stall_seconds() == 60
    for value in ("soon", "0", "-1", "nan"):
        monkeypatch.setenv("DTF_STALL_SECONDS", value)
        with pytest.raises(InvalidInput, match=f"must be a number > 0, got '{value}'"):
            stall_seconds()


def test_what_a_task_that_goes_on_meanwhile_calls_next_is_not_held_against_the_others() -> None:
    """The watching thread never pairs the number of one collective with the call of the next.

    It reads the number of collectives that have begun and then the last call, and the task may have gone on in between.
    """

    def program(ctx: FakeContext) -> list[tuple[int, str]]:
        from types import SimpleNamespace

        from jupyter_dtf.backend.task.collectives.deadlocks import Wait
        from jupyter_dtf.backend.task.collectives.stall import WatchedReducer

        looked: list[tuple[int, str]] = []
        rounds = threading.Semaphore(0)

        def look(wait: Wait, *, compare: bool) -> str:
            assert compare
            looked.append((wait.number, wait.text))
            rounds.release()
            return ""

        inner: Any = SimpleNamespace(rank=0, size=2, close=lambda failed: None)
        lookout: Any = SimpleNamespace(look=look, over=lambda group: None)
        watched = WatchedReducer(
            inner, group="g", ranks=[0, 1], tasks=["a", "b"], lookout=lookout, stall_s=1000.0, stalled=lambda *_: None
        )
        watched._texts |= {f"call {number}": number for number in range(1000)}
        begun, call = watched._begun, watched._call
        goes_on = [True]

        def numpy() -> int:
            if goes_on[0]:
                watched._ended.assign_add(1)
                begun.assign_add(1)
                rounds.release()
            return int(begun.numpy())

        begun.assign(1)
        watched._call = SimpleNamespace(numpy=numpy)
        for _ in range(4):
            rounds.acquire()
        goes_on[0] = False
        begun.assign(900)
        watched._ended.assign(899)
        for _ in range(4):
            rounds.acquire()
        watched._call = call
        watched.close()
        return looked

    (looked,) = run_gang(1, program)
    assert looked and set(looked) == {(900, "call 900")}
