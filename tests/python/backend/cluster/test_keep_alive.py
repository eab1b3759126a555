"""Dask does not consider a cluster idle while runs are active that Dask itself cannot see."""

from __future__ import annotations

import asyncio

import pytest
from distributed import Scheduler

from jupyter_dtf.backend.cluster import keep_alive


@pytest.mark.parametrize("busy", [True, False])
async def test_a_scheduler_is_idle_only_where_no_run_works(busy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = asyncio.Event()

    def is_busy() -> bool:
        looked.set()
        return busy

    monkeypatch.setattr(keep_alive, "LOOK_S", 0.0)
    async with Scheduler(dashboard=False, port=0, host="127.0.0.1") as scheduler:
        assert scheduler.check_idle() is not None
        staying = asyncio.create_task(keep_alive.stay_awake(scheduler, is_busy))
        for _ in range(3):
            looked.clear()
            await looked.wait()
            assert (scheduler.check_idle() is None) == busy
        # Dask Gateway relies on this.
        assert bool(scheduler.transition_log) == busy
        staying.cancel()
