"""What a link asks its cluster for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.backend.records.store import Store
from jupyter_dtf.backend.viewer.connections import Connection
from jupyter_dtf.backend.viewer.linking import Linking
from jupyter_dtf.backend.viewer.member import Member
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
