"""The controller as a plugin of an external Dask scheduler; the scheduler and its workers run in this process."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from distributed import Scheduler, Worker
from distributed.comm import connect

from jupyter_dtf.backend.cluster import external_scheduler
from jupyter_dtf.backend.cluster.controller import Controller
from jupyter_dtf.backend.cluster.settings import ControllerSettings
from jupyter_dtf.backend.cluster.viewer_streams import ARCHIVE
from jupyter_dtf.backend.machine import paths
from jupyter_dtf.backend.machine.visibility_mark import Mark
from jupyter_dtf.errors import Unavailable
from jupyter_dtf.schema import protocol
from jupyter_dtf.schema.base import to_plain
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.schema.machines import HostInfo
from jupyter_dtf.schema.operations import LEAVE, ScopedRpc, scoped
from jupyter_dtf.schema.run import RunInfo, RunRequest

from ...patience import left_s

SPEECH = to_plain(protocol.ours())
TOKEN = secrets.token_hex(6)


async def come(scheduler: Scheduler, directory: Path, token: str = TOKEN) -> Controller:
    """Register a controller as a plugin of the scheduler, and return it."""
    request = ClusterRequest(name="c", jobs={"worker": 1}, keep=True)
    settings = ControllerSettings(request=request, token=token, runs=Mark.of(directory), created=0.0, scope=token)
    controller = Controller(settings)
    await scheduler.register_scheduler_plugin(controller, name=controller.name, idempotent=False)
    return controller


def state(server: Any) -> dict[str, set[str]]:
    kept = ("handlers", "stream_handlers", "plugins", "worker_plugins")
    return {name: set(getattr(server, name, ())) for name in kept}


async def until(condition: Callable[[], object]) -> None:
    ends = time.monotonic() + left_s()
    while not condition():
        assert time.monotonic() < ends
        await asyncio.sleep(0.01)


def in_a_scheduler(story: Callable[[Scheduler], Any]) -> None:
    async def tell() -> None:
        async with Scheduler(host="127.0.0.1", port=0, dashboard_address=":0") as scheduler:
            before = state(scheduler)
            await story(scheduler)
            await until(lambda: state(scheduler) == before)
            await until(lambda: not any((parent / TOKEN).exists() for parent in paths.family_parents()))

    asyncio.run(asyncio.wait_for(tell(), left_s()))


def test_what_is_said_is_heard_until_every_worker_has_said_farewell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_scheduler, "__version__", "9.9.9")  # these workers do not become hosts

    async def story(scheduler: Scheduler) -> None:
        async with Worker(scheduler.address, name="early", local_directory=str(tmp_path)) as early:
            before = state(early)
            controllers = [await come(scheduler, tmp_path), await come(scheduler, tmp_path, "another")]
            async with Worker(scheduler.address, name="late", local_directory=str(tmp_path)) as late:
                await until(lambda: all(len(each.describe().warnings) == 3 for each in controllers))
                for controller in controllers:
                    coming = controller.describe().coming
                    assert {(host.name, host.step) for host in coming} == {("early", "ended"), ("late", "ended")}
                    assert all("instead of 9.9.9: install that release" in host.problem for host in coming)
                hears, let_go = [asyncio.Event() for _ in range(2)]
                plugin = late.plugins[scoped("jupyter_dtf", TOKEN)]
                teardown = plugin.teardown

                async def slowly(worker: Any) -> None:
                    hears.set()
                    await let_go.wait()
                    await teardown(worker)

                plugin.teardown = slowly
                leaving = asyncio.create_task(controllers[0].leave())
                await hears.wait()
                assert scoped("dtf_host", TOKEN) in scheduler.stream_handlers
                assert scoped("dtf_submit", TOKEN) not in scheduler.handlers
                late.batched_stream.send({"op": scoped("dtf_event", TOKEN), "run_id": "r", "data": b""})
                let_go.set()
                assert await leaving == []
                assert controllers[1].describe().coming, "the other one is still there"
                assert await controllers[1].leave() == []
                assert set(scheduler.workers) == {early.address, late.address}
                assert state(late) == before
            assert state(early) == before

    in_a_scheduler(story)


def test_it_leaves_when_its_cluster_process_has_gone_without_a_word(tmp_path: Path) -> None:
    async def story(scheduler: Scheduler) -> None:
        controller = await come(scheduler, tmp_path)
        comm = await connect(scheduler.address)
        attach = {"role": ARCHIVE, "after": {}, "speech": SPEECH, "reply": False}
        await comm.write({"op": scoped("dtf_attach", TOKEN), **attach})
        await comm.read()
        assert controller.viewers.archive_is_there
        lonely, open_to_all = controller.describe().warnings
        assert lonely.endswith(f"has no worker. Runs wait until one joins: `dask worker {scheduler.address}`")
        assert " has no certificates: anyone who can reach it " in open_to_all
        comm.abort()
        await until(lambda: scoped(LEAVE, TOKEN) not in scheduler.handlers)

    in_a_scheduler(story)


def test_a_host_that_was_given_up_and_speaks_again_lets_go_of_what_went_on_without_it(tmp_path: Path) -> None:
    async def story(scheduler: Scheduler) -> None:
        controller = await come(scheduler, tmp_path)
        told: list[Any] = []

        async def tell(addresses: list[str], op: str, **message: Any) -> None:
            told.append((addresses, op, message))

        controller.watch.tell = tell  # type: ignore[method-assign, assignment]
        run = controller.runs.add(RunInfo(id="r", name="r", cluster="c", jobs={"worker": 1}), RunRequest())
        address, host = "tcp://a:1", to_plain(HostInfo(name="a", address="tcp://a:1"))
        run.by_host = {address: []}
        scheduler.idle_since = 1.0
        controller.on_host(address, host, speech=SPEECH, alive=["r/worker:0"])
        assert scheduler.idle_since is None, "Dask would take it for idle, and end it"
        await controller.watch.end(address)
        assert not controller.watch.infos
        controller.on_host(address, host, speech=SPEECH, alive=["r/worker:0", "over/worker:1"])
        assert list(controller.watch.infos) == [address]
        await until(lambda: told)
        assert told == [([address], "dtf_release", {"run_id": "over"})]
        assert not run.info.state.is_final
        told.clear()
        run.by_host = {"tcp://b:1": []}  # it was restarted elsewhere
        controller.on_host(address, host, speech=SPEECH, alive=["r/worker:0"])
        await until(lambda: told)
        assert told == [([address], "dtf_release", {"run_id": "r"})]
        with pytest.raises(Unavailable, match=r"which somebody else runs: http://127\.0\.0\.1:\d+/status"):
            await controller.dashboard(start=True)
        del controller.watch.tell
        await controller.leave()

    in_a_scheduler(story)


def test_only_our_operations_have_scoped_names() -> None:
    class Peer:
        def __getattr__(self, name: str) -> str:
            return name

    peer = ScopedRpc(Peer(), "abc")
    assert (peer.dtf_launch, peer.kill) == ("dtf_launch-abc", "kill")
    assert ScopedRpc(Peer(), "").dtf_launch == "dtf_launch"
