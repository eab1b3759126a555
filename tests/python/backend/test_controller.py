"""The controller on a real scheduler, without hosts."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from distributed import Scheduler
from distributed.comm import connect
from distributed.core import rpc

from jupyter_dtf.backend.controller import Controller, ControllerSettings
from jupyter_dtf.backend.viewers import ARCHIVE


async def _messages_until(comm: Any, op: str) -> list[str]:
    seen: list[str] = []
    while op not in seen:
        seen += [message["op"] for message in await asyncio.wait_for(comm.read(), 10)]
    return seen


def test_a_cluster_closed_before_its_process_listens_is_closed(tmp_path: Path) -> None:
    settings = ControllerSettings(
        name="early",
        kind="local",
        token="0",
        jobs={"worker": 1},
        runs_dir=str(tmp_path),
        keep=True,
        grace_s=30.0,
        created=time.time(),
    )

    async def close_then_attach() -> list[str]:
        async with Scheduler(port=0, dashboard_address=":0") as scheduler:
            await Controller(settings).start(scheduler)
            async with rpc(scheduler.address) as requests:
                assert "ok" in await requests.dtf_close()
            comm = await connect(scheduler.address)
            await comm.write({"op": "dtf_attach", "role": ARCHIVE, "after": {}, "reply": False})
            seen = await _messages_until(comm, "close")
            comm.abort()
            return seen

    assert asyncio.run(close_then_attach())[-2:] == ["attached", "close"]
