"""Viewers on another machine, or in another container, that share the home, with real clusters and namespaces."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import msgspec
import pytest

from jupyter_dtf.backend.machine import whereabouts
from jupyter_dtf.backend.viewer import connections, fleet, member
from jupyter_dtf.errors import ClusterLost, Unavailable
from jupyter_dtf.schema import payload
from jupyter_dtf.schema.api import ClusterState
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.schema.run import RunInfo, RunRequest, RunState

from ... import lacking
from ...patience import left_s
from .test_connections import connection, gone
from .test_fleet import ENDED, PROGRAM, run, until, viewer

ALONE = ["unshare", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]
LOOK = """
import asyncio
from jupyter_dtf.backend.machine import paths
from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.backend.records.store import Store
from jupyter_dtf.backend.viewer.fleet import Fleet


async def look():
    fleet = Fleet(Hub(Store(paths.store_path())))
    await fleet.start()
    info = await fleet.ready("far")
    fleet.refresh()
    print(info.state.value, *[run.state.value for run in fleet.hub.runs()])
    await fleet.stop()


asyncio.run(look())
"""


def test_a_viewer_with_other_process_ids_leaves_a_cluster_alone() -> None:
    try:
        tried = subprocess.run([*ALONE, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        lacking.skip("unshare must be installed, which is part of util-linux")
    if tried.returncode:
        lacking.skip(f"no namespace can be made here: {tried.stderr.strip()}")

    async def test() -> None:
        async with viewer() as here:
            await here.start_cluster(ClusterRequest(name="far", jobs={"worker": 1}))
            await here.ready("far")
            submitted = await here.submit("far", RunRequest(), payload.pack(PROGRAM))
            await until(here, submitted.id, {RunState.RUNNING})
            before = connections.read("far")
            there = await asyncio.to_thread(
                subprocess.run, [*ALONE, sys.executable, "-c", LOOK], capture_output=True, text=True, timeout=left_s()
            )
            assert (there.stdout, there.returncode) == ("running running\n", 0), there.stderr
            assert connections.read("far") == before
            for directory in before.directories:
                os.stat(directory)  # it is still there
            await here.stop_run(submitted.id)
            assert (await until(here, submitted.id, ENDED)).state is RunState.STOPPED
            await here.close_cluster("far")

    run(test)


def test_a_cluster_elsewhere_that_cannot_be_reached_is_shown_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member, "REACH_S", 0.0)
    monkeypatch.setattr(fleet, "FIRST_ANSWER_S", 0.0)
    far = connection("far")
    far.pid, far.address = gone(), "tcp://127.0.0.1:1"
    far.where = msgspec.structs.replace(whereabouts.here(), host="node-7", boot="another")
    connections.reserve(far)
    written = connections.path_of("far").read_bytes()

    async def test() -> None:
        async with viewer() as here:
            here.hub.add_run(RunInfo(id="r1", name="r1", cluster="far", created=far.created + 1).descriptor)
            here.refresh()
            silent = asyncio.Event()
            here.subscribe(lambda: silent.set() if here.cluster("far").silent_s else None)
            await asyncio.wait_for(silent.wait(), left_s())
            assert here.cluster("far").state is ClusterState.RUNNING
            with pytest.raises(ClusterLost, match="has not responded for .* on node-7, which is another machine"):
                await here.ready("far")
            with pytest.raises(Unavailable, match="can only be ended on its own machine.*node-7.*remove .*far.json"):
                await here.stop_cluster("far")
            with pytest.raises(Unavailable, match="can only be ended on its own machine"):
                await here.stop_run("r1")
            assert [info.state for info in here.hub.runs()] == [RunState.PENDING]

    run(test)
    assert connections.path_of("far").read_bytes() == written


@pytest.mark.parametrize("state", [ClusterState.STARTING, ClusterState.STOPPING])
def test_a_cluster_elsewhere_is_not_signalled_by_an_id_of_there(state: ClusterState) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        far = connection("far", pid=process.pid)
        far.state, far.where.pids = state, "pid:[1]"
        connections.reserve(far)

        async def test() -> None:
            async with viewer() as here:
                with pytest.raises(Unavailable, match="can only be ended on its own machine"):
                    await here.stop_cluster("far")

        run(test)
        assert process.poll() is None
    assert json.loads(connections.path_of("far").read_bytes())["state"] == state.value
