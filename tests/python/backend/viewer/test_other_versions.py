"""Clusters of other versions are shown, named and stopped, with real cluster processes that speak another protocol."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pytest

from jupyter_dtf.backend.machine import children
from jupyter_dtf.backend.viewer import connections
from jupyter_dtf.backend.viewer.sending import SENT_APART_BYTES
from jupyter_dtf.errors import Unavailable
from jupyter_dtf.schema import payload
from jupyter_dtf.schema.api import ClusterState
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.schema.payload import Packed
from jupyter_dtf.schema.run import RunRequest, RunState

from ...patience import left_s
from .test_connections import connection
from .test_fleet import PROGRAM, run, until, viewer

OTHER = """
import sys
from jupyter_dtf.schema import protocol
protocol.OLDEST, protocol.PROTOCOL = {oldest}, {newest}
from jupyter_dtf.backend.cluster.cluster_process import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("oldest", "newest", "advice"), [(8, 9, "use jupyter_dtf >="), (0, 0, "and start it again")])
def test_a_cluster_of_another_version_is_seen_and_stopped(
    oldest: int, newest: int, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = OTHER.format(oldest=oldest, newest=newest)
    command = [sys.executable, "-c", program]
    monkeypatch.setattr(children, "command", lambda module, *arguments: [*command, *arguments])

    async def test() -> None:
        async with viewer() as fleet:
            await fleet.start_cluster(ClusterRequest(name="other", jobs={"worker": 1}))
            with pytest.raises(Unavailable, match=advice) as refused:
                await fleet.ready("other")
            assert "The cluster other (jupyter_dtf" in str(refused.value)
            (info,) = fleet.clusters()
            assert info.state is ClusterState.RUNNING
            assert info.incompatible == str(refused.value)
            with pytest.raises(Unavailable, match=advice):
                await fleet.submit("other", RunRequest(), b"")
            with pytest.raises(Unavailable, match=advice):
                await fleet.scale("other", {"worker": 2})
            await asyncio.wait_for(fleet.close_cluster("other"), left_s())
            assert fleet.clusters() == []

    run(test)


def test_a_newer_cluster_that_still_speaks_ours_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", OTHER.format(oldest=1, newest=9)]
    monkeypatch.setattr(children, "command", lambda module, *arguments: [*command, *arguments])

    async def test() -> None:
        async with viewer() as fleet:
            await fleet.start_cluster(ClusterRequest(name="newer", jobs={"worker": 1}))
            await fleet.ready("newer")
            assert fleet.connection("newer").speech.protocol == 9
            assert fleet.cluster("newer").incompatible == ""
            await fleet.close_cluster("newer")

    run(test)


class Newer(RunRequest):
    """A request from a version that has one more option."""

    later: int = 0


def test_a_newer_request_is_taken_unless_it_uses_what_is_new() -> None:
    async def test() -> None:
        async with viewer() as fleet:
            await fleet.start_cluster(ClusterRequest(name="before", jobs={"worker": 1}))
            await fleet.ready("before")
            small, large = payload.pack(PROGRAM), Packed([bytes(SENT_APART_BYTES + 1)])
            taken = await fleet.submit("before", Newer(name="taken"), small)
            assert (await until(fleet, taken.id, {RunState.RUNNING})).name == "taken"
            await fleet.stop_run(taken.id, now=True)
            for program in (small, large):
                with pytest.raises(Unavailable, match="The cluster before .* cannot read a request.* field `later`"):
                    await asyncio.wait_for(fleet.submit("before", Newer(later=1), program), left_s())
            await fleet.close_cluster("before")

    run(test)


def test_a_file_of_another_version_is_read_as_far_as_it_can_be() -> None:
    connections.reserve(connection("other"))
    path = connections.path_of("other")
    raw = json.loads(path.read_bytes())
    raw |= {"speech": {"protocol": 9, "oldest": 9, "release": "9.0.0", "more": 1}, "jobs": [["worker", 2]],
            "state": "migrating", "machines": ["a"]}  # fmt: skip
    path.write_text(json.dumps(raw))
    read = connections.read("other")
    assert (read.pid, read.state, read.jobs, read.is_alive) == (os.getpid(), ClusterState.RUNNING, {}, True)
    assert "9.0.0) speaks protocol 9" in read.refusal
    read.state = ClusterState.STOPPING
    connections.write(read)
    kept = json.loads(path.read_bytes())
    assert (kept["machines"], kept["state"], kept["speech"]["more"]) == (["a"], "stopping", 1)


def test_a_file_of_before_there_was_a_number_is_of_protocol_0() -> None:
    connections.reserve(connection("old"))
    path = connections.path_of("old")
    raw = json.loads(path.read_bytes())
    del raw["speech"]
    path.write_text(json.dumps(raw))
    assert "speaks protocol 0" in connections.read("old").refusal
