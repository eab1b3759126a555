from __future__ import annotations

import pytest

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.backend.viewer import lost_runs
from jupyter_dtf.errors import NotFound, Unavailable
from jupyter_dtf.schema.run import RunInfo, RunState


class Noted(Hub):
    """A hub that has these runs, and remembers which were marked."""

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


def run(name: str, cluster: str = "c", created: float = 5.0, state: RunState = RunState.RUNNING) -> RunInfo:
    return RunInfo(id=name, name=name, cluster=cluster, created=created, state=state)


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
    lost_runs.mark_lost(hub, "c", 4.0, "It crashed")
    assert hub.lost == {"its": "It crashed", "its second": "It crashed"}
    assert "The end of the run unwritten could not be kept" in caplog.text


def test_runs_of_clusters_that_nobody_knows_are_lost() -> None:
    hub = Noted(run("orphan"), run("ended", state=RunState.FAILED))
    lost_runs.mark_orphans(hub, {})
    assert hub.lost == {"orphan": "The cluster c was killed or has crashed"}
