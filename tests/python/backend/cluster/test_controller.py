"""The controller on a real scheduler, without hosts."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from distributed import Scheduler
from distributed.comm import connect
from distributed.core import rpc

from jupyter_dtf.backend.cluster.controller import Controller
from jupyter_dtf.backend.cluster.settings import ControllerSettings
from jupyter_dtf.backend.cluster.viewer_streams import ARCHIVE
from jupyter_dtf.backend.machine.visibility_mark import Mark
from jupyter_dtf.backend.planning.launch_plan import HostSlot, plan
from jupyter_dtf.schema import protocol
from jupyter_dtf.schema.base import convert, to_plain
from jupyter_dtf.schema.checkup import Finding
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.schema.events import Note, TaskChanged, decode_event, encode_event
from jupyter_dtf.schema.machines import HostInfo, MachineSeries
from jupyter_dtf.schema.run import RunInfo, RunRequest, RunState, TaskState

from ...patience import left_s

SPEECH = to_plain(protocol.ours())


async def _messages_until(comm: Any, op: str) -> list[str]:
    seen: list[str] = []
    while op not in seen:
        seen += [message["op"] for message in await asyncio.wait_for(comm.read(), left_s())]
    return seen


def settings(tmp_path: Path, **change: Any) -> ControllerSettings:
    given: dict[str, Any] = {"name": "early", "jobs": {"worker": 1}, "keep": True, "grace_s": 30.0}
    request = ClusterRequest(**given | change)
    return ControllerSettings(request=request, token="0", runs=Mark.of(tmp_path), created=time.time())


def test_a_cluster_closed_before_its_process_listens_is_closed(tmp_path: Path) -> None:
    async def close_then_attach() -> list[str]:
        async with Scheduler(port=0, dashboard_address=":0") as scheduler:
            await Controller(settings(tmp_path)).start(scheduler)
            async with rpc(scheduler.address) as requests:
                assert "ok" in await requests.dtf_close()
            comm = await connect(scheduler.address)
            await comm.write({"op": "dtf_attach", "role": ARCHIVE, "after": {}, "speech": SPEECH, "reply": False})
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
            await archive.write({"op": "dtf_attach", "role": ARCHIVE, "after": {}, "speech": SPEECH, "reply": False})
            await _messages_until(archive, "attached")

            info = RunInfo(id="r", name="r", cluster="early", jobs={"worker": 1})
            run = controller.runs.add(info, RunRequest())
            run.place(plan(info.jobs, [HostSlot("tls://a:1", "a", "a", 2)]))
            run.to(RunState.LAUNCHING)
            run.record_encoded(encode_event(TaskChanged(time=0.0, task="worker:0", state=TaskState.RUNNING)))
            controller.viewers.were_watching = True  # but they no longer are
            controller._watch_idle()
            assert not controller._countdown.is_running  # the run is working

            run.record_encoded(encode_event(TaskChanged(time=0.0, task="worker:0", state=TaskState.SERVING)))
            await _messages_until(archive, "close")
            archive.abort()

    asyncio.run(work_then_serve())


def test_no_end_is_lost_that_a_host_tells_badly_or_not_at_all(tmp_path: Path) -> None:
    async def end() -> None:
        async with Scheduler(port=0, dashboard_address=":0") as scheduler:
            controller = Controller(settings(tmp_path))
            await controller.start(scheduler)
            info = RunInfo(id="r", name="r", cluster="early", jobs={"worker": 3})
            run = controller.runs.add(info, RunRequest())
            address = "tls://a:1"
            run.place(plan(info.jobs, [HostSlot(address, "a", "a", 2)]))
            run.to(RunState.LAUNCHING)
            for task in run.info.tasks:
                run.record(TaskChanged(time=0.0, task=task.task, state=TaskState.STARTING, pid=1))

            controller.on_event(address, "r", b"\xff garbage")
            controller.on_ended(address, "r", "nobody:7", b"")
            controller.on_ended(address, "r", "worker:0", b"garbage")
            assert run.info.tasks[0].state is TaskState.FAILED
            assert run.info.tasks[0].message.startswith("has ended; the report of its host cannot be read: ")

            host = to_plain(HostInfo(name="a", address=address))
            for _ in range(2):  # after the first report, the task's end may still be on its way
                assert run.info.tasks[2].state is TaskState.STARTING
                controller.on_host(address, host, speech=SPEECH, alive=["r/worker:1"])
            assert [task.state for task in run.info.tasks[1:]] == [TaskState.STARTING, TaskState.FAILED]
            assert run.info.tasks[2].message == "has ended; its host did not report how"
            controller.on_host(address, {"nonsense": 1}, speech=SPEECH)

            for time_, cpu in ((1000.0, 0.5), (1002.0, 0.75)):
                figures = {"cpu": cpu, "gpu0_utilization": 0.25}
                controller.on_host(address, host, speech=SPEECH, figures=figures, time=time_)
            controller.on_host(address, host, speech=SPEECH)  # a host also reports between two readings
            told = [convert(series, MachineSeries) for series in controller.tell_machines(after=0.0)]
            assert told == [
                MachineSeries(
                    host="a",
                    metric="cpu",
                    plot="CPU",
                    line="this cluster",
                    unit="cores",
                    time=[1000, 1002],
                    value=[0.5, 0.75],
                ),
                MachineSeries(
                    host="a",
                    metric="gpu0_utilization",
                    plot="GPU utilization",
                    line="GPU 0",
                    unit="fraction",
                    time=[1000, 1002],
                    value=[0.25, 0.25],
                ),
            ]
            assert [series["value"] for series in controller.tell_machines(after=1000.0)] == [[0.75], [0.25]]
            await controller.close()

    asyncio.run(end())


def test_what_hosts_find_out_about_themselves_is_on_the_card_and_in_runs(tmp_path: Path) -> None:
    """Full disks and clock differences are reported, once for all hosts with the same finding."""

    async def tell() -> None:
        async with Scheduler(port=0, dashboard_address=":0") as scheduler:
            controller = Controller(settings(tmp_path))
            await controller.start(scheduler)
            full = to_plain([Finding(about="disk", text="9 B are free in /tmp", level="error")])
            hosts = [HostInfo(name=name, address=f"tls://{name}:1", machine=name) for name in ("a", "b", "c")]
            for host, behind in zip(hosts, (0.0, 0.0, 40.0), strict=True):
                for _ in range(5):
                    more = {"findings": full if host.name != "c" else [], "time": time.time() - behind}
                    controller.on_host(host.address, to_plain(host), speech=SPEECH, **more)
            told = ["Hosts a, b: 9 B are free in /tmp", "Host c: 40 s behind the cluster's: times in plots and events"]
            assert [text[: len(said)] for text, said in zip(controller.describe().warnings, told, strict=True)] == told

            run = controller.runs.add(RunInfo(id="r", name="r", cluster="early", jobs={"worker": 3}), RunRequest())
            slots = [HostSlot(host.address, host.name, "one", 1) for host in hosts]
            await controller.checkups.before(run, plan(run.info.jobs, slots[:1]))
            await controller.checkups.before(run, plan(run.info.jobs, slots[1:2]))
            notes = [event for event in map(decode_event, run.log) if isinstance(event, Note)]
            assert [(note.level, note.title) for note in notes] == [("warning", f"Host {x}: disk") for x in "ab"]
            controller.remove_worker(scheduler, hosts[2].address)
            assert controller.describe().warnings == told[:1]
            controller.on_host(hosts[2].address, to_plain(hosts[2]), speech=SPEECH)  # sent before the host was removed
            assert hosts[2].address not in controller.watch.infos
            controller.add_worker(scheduler, hosts[2].address)
            controller.on_host(hosts[2].address, to_plain(hosts[2]), speech=SPEECH)
            assert hosts[2].address in controller.watch.infos
            await controller.close()

    asyncio.run(tell())


def test_a_run_that_waits_is_told_of_a_host_that_cannot_be_used(tmp_path: Path) -> None:
    async def wait() -> None:
        async with Scheduler(port=0, dashboard_address=":0") as scheduler:
            controller = Controller(settings(tmp_path))
            await controller.start(scheduler)
            run = controller.runs.add(RunInfo(id="r", name="r", cluster="early", jobs={"worker": 1}), RunRequest())
            address, host = "tls://a:1", {"name": "node-b", "address": "tls://a:1", "threads": "many"}
            for _ in range(2):  # a host reports every two seconds
                controller.on_host(address, host, speech={"protocol": 9, "oldest": 9, "release": "9.0.0"})
            assert controller.describe().hosts == []
            (warning,) = controller.describe().warnings
            assert warning.startswith(
                "The host node-b (jupyter_dtf 9.0.0) is not used: it speaks protocol 9, but this cluster"
            )
            (note,) = [event for event in map(decode_event, run.log) if isinstance(event, Note)]
            assert (note.title, note.text) == ("A host cannot be used", warning)
            controller.remove_worker(scheduler, address)
            assert controller.describe().warnings == []
            await controller.close()

    asyncio.run(wait())


def test_hosts_are_not_given_back_under_a_run(tmp_path: Path) -> None:
    async def rest() -> None:
        async with Scheduler(port=0, dashboard_address=":0") as scheduler:
            controller = Controller(settings(tmp_path))
            await controller.start(scheduler)
            run = controller.runs.add(RunInfo(id="r", name="r", cluster="early", jobs={"worker": 1}), RunRequest())
            assert not controller.rest(rests=True)
            run.to(RunState.STOPPED)
            assert controller.rest(rests=True)
            controller.on_host("tls://a:1", to_plain(HostInfo(name="a", address="tls://a:1")), speech=SPEECH)
            assert not controller.assignment.has_all_hosts, "a run waits for those that are not kept"
            assert controller.rest(rests=False)
            assert controller.assignment.has_all_hosts
            await controller.close()

    asyncio.run(rest())
