"""What a link requests from its cluster, and how links are retried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.backend.records.store import Store
from jupyter_dtf.backend.viewer import linking
from jupyter_dtf.backend.viewer.background import Background
from jupyter_dtf.backend.viewer.connections import Connection
from jupyter_dtf.backend.viewer.linking import Linking
from jupyter_dtf.backend.viewer.member import Member
from jupyter_dtf.backend.viewer.roster import Roster
from jupyter_dtf.errors import ClusterLost, Unavailable
from jupyter_dtf.schema.api import ClusterState
from jupyter_dtf.schema.run import RunState
from jupyter_dtf.schema.run_marks import RunPatch

from ..records.run_events import encoded, run_info, short_run


def test_a_deleted_run_is_not_asked_for_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs.sqlite")
    try:
        run, events = run_info("r1", state=RunState.SUCCEEDED), encoded(short_run(RunState.SUCCEEDED))
        store.put_run(run)
        store.append("r1", events)
        hub = Hub(store)
        hub.mark("r1", RunPatch(deleted=True))
        nobody: Any = None
        member = Member(Connection(run.cluster, "local", ClusterState.RUNNING, 1, 0.0, run.created))
        assert Linking(nobody, hub, nobody)._known(member) == {"r1": len(events) - 1}
    finally:
        store.close()


@pytest.mark.parametrize("error", [ClusterLost("away"), Unavailable("database is locked"), RuntimeError("no threads")])
async def test_a_link_is_tried_again_whatever_has_happened(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linking, "_RETRY_S", (0.0,))
    tries: list[str] = []

    async def attach(self: Linking, member: Member) -> None:
        tries.append(member.name)
        if len(tries) < 3:
            raise error

    monkeypatch.setattr(Linking, "_attach", attach)
    background = Background()
    roster = Roster(background)
    member = roster.members["c"] = Member(Connection("c", "local", ClusterState.RUNNING, 1, 0.0, 1.0))
    links = Linking(roster, Hub(), background)
    links.begin(member)
    await roster.wait_for(lambda: member.linking is None)
    assert (tries, member.info.incompatible) == (["c"] * 3, "")
    await background.end()
