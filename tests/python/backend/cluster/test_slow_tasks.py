"""``SlowTasks`` keeps watching for delays whatever fails in one of its checks."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_dtf.backend.cluster import slow_tasks
from jupyter_dtf.backend.cluster.slow_tasks import SlowTasks
from jupyter_dtf.schema.run import RunState

from ...patience import left_s


class Fails:
    """A stand-in for ``Stragglers`` and ``Stalls`` that fails for one run."""

    def __init__(self, run: str, answer: Any) -> None:
        self._run = run
        self._answer = answer

    def look(self, run: Any) -> Any:
        if run.id == self._run:
            raise KeyError(run.id)
        return self._answer

    blamed = look

    def forget(self, known: Any) -> None:
        assert list(known) == ["a", "b"]


def test_one_look_that_fails_ends_neither_the_others_nor_the_watch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(slow_tasks, "LOOK_S", 0.0)
    told: list[tuple[str, str]] = []

    def run(name: str) -> Any:
        return SimpleNamespace(
            id=name,
            info=SimpleNamespace(state=RunState.RUNNING),
            planned=[],
            alarms=SimpleNamespace(machines=lambda *_args: [("idle",)]),
            note=lambda word: told.append((name, word)),
            alarm=lambda about: told.append((name, about)),
            task_info=lambda task: SimpleNamespace(attempt=0),
        )

    async def test() -> None:
        enough = asyncio.Event()

        async def tell(addresses: list[str], op: str, **message: Any) -> None:
            told.append((message["run_id"], op))
            if len(told) >= 8:
                enough.set()

        runs: Any = SimpleNamespace(active=[run("a"), run("b")])
        hosts: Any = SimpleNamespace(infos={}, tell=tell)
        watched: Any = SlowTasks(runs, hosts)
        watched._stragglers = Fails("a", [("slow",)])
        watched._stalls = Fails("b", ("tls://a:1", "worker:0", "it has stopped"))
        watching = asyncio.create_task(watched.watch())
        try:
            await enough.wait()
        finally:
            watching.cancel()
        once = [("a", "idle"), ("a", "dtf_end_frozen"), ("b", "slow"), ("b", "idle")]
        assert told[:8] == [*once, *once]
        assert "The delays of run a could not be checked" in caplog.text

    asyncio.run(asyncio.wait_for(test(), left_s()))
