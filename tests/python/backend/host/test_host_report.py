"""A host keeps reporting whatever fails in one of its reports."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_dtf.backend.host import host_report
from jupyter_dtf.backend.host.host_report import HostReport

from ...patience import left_s


@pytest.mark.parametrize("what", ["look", "tell"])
def test_one_report_that_fails_is_not_the_last(
    what: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(host_report, "SAMPLE_INTERVAL_S", 0.0)

    async def test() -> None:
        fails, told = [what], asyncio.Event()

        def maybe_fail(now: str) -> None:
            if now in fails:
                fails.remove(now)
                raise OSError("Too many open files")

        async def look() -> None:
            maybe_fail("look")

        def tell(seconds: float) -> None:
            assert seconds >= 0
            maybe_fail("tell")
            told.set()

        sampled: Any = SimpleNamespace(_checks=SimpleNamespace(look=look), tell=tell)
        sampling = asyncio.create_task(HostReport.sample(sampled))
        await told.wait()
        sampling.cancel()
        assert not fails
        assert "The load of this host could not be read" in caplog.text

    asyncio.run(asyncio.wait_for(test(), left_s()))
