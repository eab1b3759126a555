"""A scheduler whose cluster process is gone shuts down, even if the first tries fail."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_dtf.backend.cluster import self_shutdown
from jupyter_dtf.backend.cluster.self_shutdown import LeftAlone

from ...patience import left_s


def test_an_end_that_fails_is_told_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(self_shutdown, "RETRY_S", 0.0)

    async def test() -> None:
        tries, ended = [0], asyncio.Event()

        async def end() -> None:
            tries[0] += 1
            if tries[0] < 3:
                raise RuntimeError(f"try {tries[0]}")
            ended.set()

        alone = LeftAlone("a1b2", 0.0, end)
        alone.look(is_held=False)
        await ended.wait()
        assert alone._ending is not None
        await alone._ending
        assert tries == [3]
        assert [record.exc_info and str(record.exc_info[1]) for record in caplog.records] == ["try 1", "try 2"]
        alone.close()

    asyncio.run(asyncio.wait_for(test(), left_s()))


def test_nothing_is_tried_again_once_the_scheduler_has_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_shutdown, "RETRY_S", 0.0)

    async def test() -> None:
        async def end() -> None:
            alone.close()
            raise RuntimeError("while it closed")

        alone = LeftAlone("a1b2", 0.0, end)
        alone._begin()
        assert alone._ending is not None
        await alone._ending

    asyncio.run(asyncio.wait_for(test(), left_s()))
