from __future__ import annotations

from typing import Any

import pytest

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.backend.viewer import lost_runs
from jupyter_dtf.backend.viewer.connections import Connection
from jupyter_dtf.errors import NotFound, Unavailable
from jupyter_dtf.schema.api import ClusterState
from jupyter_dtf.schema.run import RunInfo, RunState, cluster_id


class Noted(Hub):
    """A hub with these runs, which records those that are marked as lost."""

    def __init__(self, *runs: RunInfo) -> None:
        super().__init__()
        self._runs_there = runs
        self.lost: dict[str, str] = {}

    def runs(self, *, deleted: bool | None = False) -> list[RunInfo]:
        return list(self._runs_there)

    def mark_lost(self, run_id: str, why: str) -> None:
        if run_id == "deleted":
            raise NotFound("gone")
        if run_id == "unwritten":
            raise Unavailable("the disk is full")
        self.lost[run_id] = why


def run(name: str, cluster: str = "c", state: RunState = RunState.RUNNING, **fields: Any) -> RunInfo:
    return RunInfo(id=name, name=name, cluster=cluster, state=state, **{"created": 5.0, **fields})


def cluster(created: float, token: str = "") -> Connection:
    return Connection("c", "local", ClusterState.RUNNING, 1, 0.0, created, token=token)


def test_the_runs_of_a_cluster_that_has_ended_are_lost(caplog: pytest.LogCaptureFixture) -> None:
    hub = Noted(
        run("its"),
        run("deleted"),
        run("unwritten"),
        run("older", created=1.0),
        run("another's", cluster="d"),
        run("ended", state=RunState.SUCCEEDED),
        run("its second"),
    )
    lost_runs.mark_lost(hub, cluster(created=4.0), "It crashed")
    assert hub.lost == {"its": "It crashed", "its second": "It crashed"}
    assert "The end of the run unwritten could not be saved" in caplog.text


def test_runs_of_clusters_that_nobody_knows_are_lost() -> None:
    hub = Noted(run("orphan"), run("ended", state=RunState.FAILED))
    lost_runs.mark_orphans(hub, {}, lambda name: False)
    assert hub.lost == {"orphan": "The cluster c was killed or has crashed"}


def test_runs_of_clusters_that_may_exist_are_kept() -> None:
    hub = Noted(run("its"), run("orphan", cluster="d"))
    lost_runs.mark_orphans(hub, {}, lambda name: name == "c")
    assert list(hub.lost) == ["orphan"]


def test_a_store_that_fails_leaves_it_to_the_next_viewer(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Noted):
        def runs(self, *, deleted: bool | None = False) -> list[RunInfo]:
            raise Unavailable("database is locked")

    hub = Failing(run("its"))
    lost_runs.mark_orphans(hub, {}, lambda name: False)
    lost_runs.mark_lost(hub, cluster(created=4.0), "It crashed")
    assert hub.lost == {}
    assert caplog.text.count("It could not be determined which runs are lost") == 2


@pytest.mark.parametrize("step_s", [-3600.0, 0.0, 3600.0])
def test_whose_run_it_is_does_not_depend_on_clocks(step_s: float) -> None:
    """A clock that was set, or the clock of the scheduler's machine, makes a run seem older than its cluster."""
    mine, theirs = cluster(created=5.0, token="mine"), cluster(created=5.0, token="an earlier one")
    runs = [
        run("mine", created=5.0 + step_s, cluster_id=cluster_id(mine.token)),
        run("theirs", created=5.0 + step_s, cluster_id=cluster_id(theirs.token)),
    ]
    starting = Noted(*runs)
    lost_runs.mark_orphans(starting, {"c": mine}, lambda name: False)
    assert list(starting.lost) == ["theirs"]
    ending = Noted(*runs)
    lost_runs.mark_lost(ending, mine, "It crashed")
    assert list(ending.lost) == ["mine"]


@pytest.mark.parametrize(("of_run", "of_cluster"), [("", "mine"), ("recorded", "")])
def test_where_an_identity_is_missing_clocks_decide(of_run: str, of_cluster: str) -> None:
    hub = Noted(run("older", created=1.0, cluster_id=of_run), run("its", cluster_id=of_run))
    lost_runs.mark_orphans(hub, {"c": cluster(created=4.0, token=of_cluster)}, lambda name: False)
    assert list(hub.lost) == ["older"]
