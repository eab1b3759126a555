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
from jupyter_dtf.backend.plan import HostSlot, plan
from jupyter_dtf.backend.runs import Run
from jupyter_dtf.backend.viewers import ARCHIVE
from jupyter_dtf.schema.events import TaskChanged, encode_event
from jupyter_dtf.schema.run import RunInfo, RunRequest, RunState, TaskState


async def _messages_until(comm: Any, op: str) -> list[str]:
    seen: list[str] = []
    while op not in seen:
        seen += [message["op"] for message in await asyncio.wait_for(comm.read(), 10)]
    return seen


def settings(tmp_path: Path, **change: Any) -> ControllerSettings:
    given: dict[str, Any] = {
        "name": "early",
        "kind": "local",
        "token": "0",
        "jobs": {"worker": 1},
        "runs_dir": str(tmp_path),
        "keep": True,
        "grace_s": 30.0,
        "created": time.time(),
    }
    return ControllerSettings(**given | change)


def test_a_cluster_closed_before_its_process_listens_is_closed(tmp_path: Path) -> None:
    async def close_then_attach() -> list[str]:
        async with Scheduler(port=0, dashboard_address=":0") as scheduler:
            await Controller(settings(tmp_path)).start(scheduler)
            async with rpc(scheduler.address) as requests:
                assert "ok" in await requests.dtf_close()
            comm = await connect(scheduler.address)
            await comm.write({"op": "dtf_attach", "role": ARCHIVE, "after": {}, "reply": False})
            seen = await _messages_until(comm, "close")
            comm.abort()
            return seen

    assert asyncio.run(close_then_attach())[-2:] == ["attached", "close"]


def test_servers_hold_a_cluster_no_longer_than_its_viewers(tmp_path: Path) -> None:
    async def work_then_serve() -> None:
        async with Scheduler(port=0, dashboard_address=":0") as scheduler:
            controller = Controller(settings(tmp_path, keep=False, grace_s=0.0))
            await controller.start(scheduler)
            archive = await connect(scheduler.address)
            await archive.write({"op": "dtf_attach", "role": ARCHIVE, "after": {}, "reply": False})
            await _messages_until(archive, "attached")

            info = RunInfo(id="r", name="r", cluster="early", jobs={"worker": 1})
            run = Run(info, RunRequest(), controller._publish, controller._announce_run)
            controller.runs["r"] = run
            run.place(plan(info.jobs, [HostSlot("tls://a:1", "a", "a", 2)]))
            run.to(RunState.LAUNCHING)
            run.record_encoded(encode_event(TaskChanged(time=0.0, task="worker:0", state=TaskState.RUNNING)))
            controller.viewers.were_watching = True  # and are no more
            controller._watch_idle()
            assert controller._idle is None  # it works

            run.record_encoded(encode_event(TaskChanged(time=0.0, task="worker:0", state=TaskState.SERVING)))
            await _messages_until(archive, "close")
            archive.abort()

    asyncio.run(work_then_serve())
