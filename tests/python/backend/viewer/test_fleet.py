"""How viewers find, adopt, leave and lose clusters, with real cluster processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import cloudpickle
import psutil
import pytest

from jupyter_dtf.backend.machine import cluster_processes, paths
from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.backend.records.store import Store
from jupyter_dtf.backend.viewer import connections, starting
from jupyter_dtf.backend.viewer.fleet import Fleet
from jupyter_dtf.errors import ClusterLost, Conflict, InvalidInput, NotFound, Unavailable
from jupyter_dtf.schema import payload
from jupyter_dtf.schema.api import ClusterState
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.schema.run import RunInfo, RunRequest, RunState, TaskState

from ... import patience
from ...patience import left_s

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def run(test: Callable[[], Any]) -> None:
    asyncio.run(asyncio.wait_for(test(), left_s()))


@asynccontextmanager
async def viewer() -> AsyncIterator[Fleet]:
    """Start a viewer with its own hub, like a Jupyter server or a kernel."""
    fleet = Fleet(Hub(Store(paths.store_path())))
    await fleet.start()
    try:
        yield fleet
    finally:
        await fleet.stop()


async def until(fleet: Fleet, run_id: str, states: set[RunState]) -> RunInfo:
    changed = asyncio.Event()
    loop = asyncio.get_running_loop()
    unsubscribe = fleet.hub.subscribe(lambda _run: loop.call_soon_threadsafe(changed.set))
    try:
        while True:
            with_run = [info for info in fleet.hub.runs() if info.id == run_id and info.state in states]
            if with_run:
                return with_run[0]
            await asyncio.wait_for(changed.wait(), left_s())
            changed.clear()
    finally:
        unsubscribe()


def until_removed(directories: list[str]) -> None:
    def left() -> list[str]:
        return [directory for directory in directories if os.path.exists(directory)]

    patience.until(lambda: not left(), left)


def report_and_wait(_args: object, ctx: Any) -> None:
    for step in range(100):
        ctx.report(step=step, loss=step)
    ctx.stop_requested.wait()
    for step in range(100, 200):
        ctx.report(step=step, loss=step)


PROGRAM: tuple[Any, ...] = (report_and_wait, (None,), {})
ENDED = {state for state in RunState if state.is_final}


def test_a_cluster_outlives_its_viewers_and_the_next_one_sees_everything() -> None:
    async def test() -> None:
        async with viewer() as first:
            info = await first.start_cluster(ClusterRequest(name="kept", jobs={"worker": 1}))
            assert info.state is ClusterState.STARTING
            await first.ready("kept")
            submitted = await first.submit("kept", RunRequest(name="long"), payload.pack(PROGRAM))
            await until(first, submitted.id, {RunState.RUNNING})
        kept = connections.read("kept")
        assert submitted.cluster_id and kept.is_cluster_of(submitted)
        kept.created += 3600  # as if the clock had been set back after the cluster was started
        connections.write(kept)
        async with viewer() as second:  # knows nothing from the first, like a restarted server
            assert [cluster.state for cluster in second.clusters()] == [ClusterState.RUNNING]
            assert (await until(second, submitted.id, {RunState.RUNNING})).name == "long"
            await second.stop_run(submitted.id)
            ended = await until(second, submitted.id, ENDED)
            assert ended.state is RunState.STOPPED
            series = second.hub.record(submitted.id).series[("loss", "worker:0")]
            assert list(series.step) == list(range(200))
            with pytest.raises(Conflict, match="Only an active run can be stopped"):
                await second.stop_run(submitted.id)
            await second.close_cluster("kept")
            assert second.clusters() == []
        async with viewer() as third:  # from the store alone
            assert third.hub.info(submitted.id).state is RunState.STOPPED
            assert len(third.hub.record(submitted.id).series[("loss", "worker:0")].step) == 200

    run(test)


def test_a_cluster_started_elsewhere_is_noticed_and_so_is_its_end() -> None:
    async def test() -> None:
        async with viewer() as fleet:
            changed = asyncio.Event()
            fleet.subscribe(changed.set)
            started = starting.start(ClusterRequest(name="elsewhere", jobs={"worker": 1}))
            os.close(started.ready_fd)
            while [c.state for c in fleet.clusters()] != [ClusterState.RUNNING]:
                await asyncio.wait_for(changed.wait(), left_s())
                changed.clear()
            os.kill(connections.read("elsewhere").pid, signal.SIGTERM)
            await asyncio.wait_for(fleet.gone("elsewhere"), left_s())

    run(test)


def test_a_killed_cluster_process_loses_its_runs_and_leaves_nothing() -> None:
    async def test() -> None:
        async with viewer() as fleet:
            await fleet.start_cluster(ClusterRequest(name="doomed", jobs={"worker": 1}))
            await fleet.ready("doomed")
            submitted = await fleet.submit("doomed", RunRequest(), payload.pack(PROGRAM))
            await until(fleet, submitted.id, {RunState.RUNNING})
            os.kill(fleet.connection("doomed").pid, signal.SIGKILL)
            lost = await until(fleet, submitted.id, ENDED)
            assert (lost.state, lost.message) == (RunState.LOST, "The cluster doomed was killed (SIGKILL)")
            assert [(task.state, task.message) for task in lost.tasks] == [(TaskState.LOST, lost.message)]
            with pytest.raises(ClusterLost, match=r"was killed \(SIGKILL\). Its runs are lost"):
                await asyncio.wait_for(fleet.gone("doomed"), left_s())
            assert fleet.cluster("doomed").state is ClusterState.LOST
            with pytest.raises(ClusterLost, match="`jupyter dtf stop doomed`"):
                await fleet.ready("doomed")
            with pytest.raises(ClusterLost):
                await fleet.submit("doomed", RunRequest(), payload.pack(PROGRAM))
            directories = fleet.connection("doomed").directories
            assert len(directories) == 2
        async with viewer() as later:  # the next viewer sees it too
            assert later.hub.info(submitted.id).tasks[0].state is TaskState.LOST
            assert [cluster.state for cluster in later.clusters()] == [ClusterState.LOST]
            await later.stop_cluster("doomed")  # dismissed
            assert later.clusters() == []
            assert connections.read_all() == {}
        await asyncio.to_thread(until_removed, directories)

    run(test)


def test_a_store_that_fails_for_a_while_costs_no_viewer_its_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with viewer() as first:
            await first.start_cluster(ClusterRequest(name="kept", jobs={"worker": 1}))
            await first.ready("kept")
            submitted = await first.submit("kept", RunRequest(name="long"), payload.pack(PROGRAM))
            await until(first, submitted.id, {RunState.RUNNING})
        failed: list[bool | None] = []

        def fails(self: Hub, *, deleted: bool | None = False) -> list[RunInfo]:
            failed.append(deleted)
            raise Unavailable("The store of runs cannot be used: database is locked")

        with monkeypatch.context() as broken:
            broken.setattr(Hub, "runs", fails)
            second = Fleet(Hub(Store(paths.store_path())))
            await second.start()
            await asyncio.wait_for(second.ready("kept"), left_s())
        assert set(failed) == {None, False}  # for the link, and for lost runs
        try:
            assert second.cluster("kept").incompatible == ""
            assert (await until(second, submitted.id, {RunState.RUNNING})).name == "long"
            await second.stop_run(submitted.id)
            await until(second, submitted.id, ENDED)
            series = second.hub.record(submitted.id).series[("loss", "worker:0")]
            assert list(series.step) == list(range(200))  # nothing was missed, and nothing came twice
            await second.close_cluster("kept")
        finally:
            await second.stop()

    run(test)


def test_a_cluster_that_is_closed_while_its_death_is_being_told_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    closing = threading.Event()
    mark_lost = connections.mark_lost

    def after_it_was_closed(connection: connections.Connection, message: str) -> connections.Connection | None:
        assert closing.wait(left_s())
        return mark_lost(connection, message)

    async def test() -> None:
        async with viewer() as fleet:
            await fleet.start_cluster(ClusterRequest(name="doomed", jobs={"worker": 1}))
            await fleet.ready("doomed")
            submitted = await fleet.submit("doomed", RunRequest(), payload.pack(PROGRAM))
            await until(fleet, submitted.id, {RunState.RUNNING})
            monkeypatch.setattr(connections, "mark_lost", after_it_was_closed)
            os.kill(fleet.connection("doomed").pid, signal.SIGKILL)
            assert (await until(fleet, submitted.id, ENDED)).state is RunState.LOST
            close = asyncio.create_task(fleet.close_cluster("doomed"))
            await asyncio.sleep(0)  # it has begun
            closing.set()
            assert await asyncio.wait_for(close, left_s()) == ""
            assert fleet.clusters() == []
            assert connections.read_all() == {}

    run(test)


def test_a_death_that_nobody_saw_is_noticed_by_the_next_viewer() -> None:
    async def test() -> None:
        async with viewer() as fleet:
            await fleet.start_cluster(ClusterRequest(name="unseen", jobs={"worker": 1}))
            await fleet.ready("unseen")
            submitted = await fleet.submit("unseen", RunRequest(), payload.pack(PROGRAM))
            await until(fleet, submitted.id, {RunState.RUNNING})
            store = Store(paths.store_path())
            while submitted.id not in [info.id for info in store.runs()]:  # the archive writes a few times a second
                await asyncio.sleep(0.02)
            connection = fleet.connection("unseen")
        for pid in cluster_processes.members(connection.token):  # all at once, so that none can clean up
            os.kill(pid, signal.SIGSTOP)
        ended = await asyncio.to_thread(cluster_processes.end, connection.token)
        assert ended == []
        async with viewer() as later:
            await until(later, submitted.id, {RunState.LOST})
            changed = asyncio.Event()
            unsubscribe = later.subscribe(changed.set)
            while [cluster.state for cluster in later.clusters()] != [ClusterState.LOST]:
                await asyncio.wait_for(changed.wait(), left_s())
                changed.clear()
            unsubscribe()
            await asyncio.wait_for(later.close_cluster("unseen"), left_s())
            await asyncio.to_thread(until_removed, connection.directories)

    run(test)


def test_a_cluster_ends_after_its_last_viewer_but_never_during_a_run() -> None:
    async def test() -> None:
        async with viewer() as fleet:
            await fleet.start_cluster(ClusterRequest(name="brief", jobs={"worker": 1}, grace_s=0))
            await fleet.ready("brief")
            submitted = await fleet.submit("brief", RunRequest(), payload.pack(PROGRAM))
            await until(fleet, submitted.id, {RunState.RUNNING})
            pid = fleet.connection("brief").pid
        async with viewer() as fleet:  # it still exists because of the run
            await fleet.ready("brief")
            await fleet.stop_run(submitted.id)
            await until(fleet, submitted.id, ENDED)
            process = psutil.Process(pid)
        gone, _ = await asyncio.to_thread(psutil.wait_procs, [process], left_s())
        assert gone
        assert connections.read_all() == {}

    run(test)


def test_a_cluster_that_cannot_start_says_why_and_can_be_dismissed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with viewer() as fleet:
            monkeypatch.setenv("DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION", "nonsense")
            monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__PRELOAD", "['no_such_module']")
            await fleet.start_cluster(ClusterRequest(name="broken", jobs={"worker": 1}))
            with pytest.raises(Unavailable, match="The cluster broken did not start: .*no_such_module"):
                await fleet.ready("broken")
            assert fleet.cluster("broken").state is ClusterState.FAILED
            await fleet.stop_cluster("broken")
            with pytest.raises(NotFound):
                fleet.cluster("broken")

    run(test)


def test_what_is_wrong_with_a_request_is_said_before_anything_starts() -> None:
    async def test() -> None:
        async with viewer() as fleet:
            with pytest.raises(InvalidInput, match="Dask workers must be at least 1"):
                await fleet.start_cluster(ClusterRequest(options={"hosts": 0}))
            with pytest.raises(NotFound):
                await fleet.start_cluster(ClusterRequest(kind="mainframe"))
            assert connections.read_all() == {}
            with pytest.raises(NotFound, match="no cluster named 'nobody'"):
                await fleet.scale("nobody", {"worker": 1})

    run(test)


def test_a_starting_cluster_can_be_stopped_and_cannot_be_asked() -> None:
    async def test() -> None:
        async with viewer() as fleet:
            await fleet.start_cluster(ClusterRequest(name="early", jobs={"worker": 1}))
            with pytest.raises(ClusterLost, match="does not accept requests now"):
                await fleet.scale("early", {"worker": 2})
            with pytest.raises(Conflict, match="a cluster named 'early' exists"):
                await fleet.start_cluster(ClusterRequest(name="early", jobs={"worker": 1}))
            await asyncio.wait_for(fleet.close_cluster("early"), left_s())
            assert connections.read_all() == {}

    run(test)


def test_a_script_that_is_killed_leaves_nothing_running(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import jupyter_dtf as dtf\n"
        "cluster = dtf.Cluster(jobs={'worker': 1}, grace_s=0.1)\n"
        "cluster.wait_ready()\n"
        "print(cluster.name, flush=True)\n"
        "input()\n"
    )
    process = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    name = process.stdout.readline().strip()
    cluster = psutil.Process(connections.read(name).pid)
    children = cluster.children(recursive=True)
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()
    _gone, alive = psutil.wait_procs([cluster, *children], left_s())
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []
    assert connections.read_all() == {}
