"""Which runs can be resumed, from where, and why others cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_dtf.backend.records import submission_files
from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.backend.viewer import resuming
from jupyter_dtf.errors import Conflict, NotFound
from jupyter_dtf.schema import payload
from jupyter_dtf.schema.api import ClusterInfo, ClusterState
from jupyter_dtf.schema.checkpoint import CheckpointInfo
from jupyter_dtf.schema.events import CheckpointSaved, encode_event
from jupyter_dtf.schema.run import RunDescriptor, RunRequest


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    """A hub with a training that has two checkpoints and a kept submission."""
    hub = Hub()
    hub.add_run(RunDescriptor(id="r", name="mlp", cluster="c", kind="fit", goes_on=True, run_dir=str(tmp_path)))
    for seq, step in enumerate((7, 14)):
        info = CheckpointInfo(step=step, epoch=0, path=str(tmp_path / "checkpoints" / str(step)))
        hub.apply("r", seq, encode_event(CheckpointSaved(time=1.0, checkpoint=info)))
    submission_files.keep(tmp_path, RunRequest(name="mlp", kind="fit", goes_on=True), payload.packed("program"))
    return hub


def test_a_training_goes_on_with_what_it_was_submitted_with(hub: Hub, tmp_path: Path) -> None:
    found = resuming.prepared(hub, "r", None)
    assert (found.request.name, found.request.resumed_from) == ("mlp 2", "r")
    assert found.request.resume == str(tmp_path / "checkpoints")
    assert payload.unpack(bytes(found.program)) == "program"
    assert resuming.prepared(hub, "r", 7).request.resume == str(tmp_path / "checkpoints" / "7")
    with pytest.raises(NotFound, match=r"`step` must be the step of a checkpoint of the run .* \(7, 14\), got 8"):
        resuming.prepared(hub, "r", 8)


def test_what_is_on_the_disk_counts_as_well(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "21").mkdir(parents=True)
    with pytest.raises(NotFound, match="7, 14"):
        resuming.prepared(hub, "r", 21)
    (tmp_path / "checkpoints" / "21" / "manifest.json").touch()
    assert resuming.prepared(hub, "r", 21).request.resume == str(tmp_path / "checkpoints" / "21")


def test_why_one_cannot_go_on_is_said(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add_run(RunDescriptor(id="p", name="p", cluster="c", kind="program"))
    hub.add_run(RunDescriptor(id="a", name="a", cluster="c", kind="fit"))
    hub.add_run(RunDescriptor(id="n", name="n", cluster="c", kind="fit", goes_on=True, run_dir=str(tmp_path / "n")))
    with pytest.raises(Conflict, match="Only training can be resumed, .* p is a program"):
        resuming.prepared(hub, "p", None)
    with pytest.raises(Conflict, match="a cannot be resumed: it ran with checkpoint=False"):
        resuming.prepared(hub, "a", None)
    with pytest.raises(NotFound, match="The run n has no checkpoint"):
        resuming.prepared(hub, "n", None)
    submission_files.remove(tmp_path)
    with pytest.raises(Conflict, match=r"The model and the data of the run r are not kept: .*resume='r'\)"):
        resuming.prepared(hub, "r", None)
    monkeypatch.setattr(submission_files, "MOST_BYTES", 100)
    small = payload.packed(1)
    submission_files.keep(tmp_path, RunRequest(kind="fit"), payload.packed(bytes(2 << 20)), small)
    with pytest.raises(Conflict, match=r"is kept, but not its data: together they take 2.0 MiB, and at most 100 B are"):
        resuming.prepared(hub, "r", None)


def test_a_cluster_that_is_gone_has_to_be_named_anew(hub: Hub) -> None:
    was = hub.info("r")
    there = [ClusterInfo(name=name, kind="local", state=ClusterState.RUNNING) for name in ("c", "d")]
    gone = ClusterInfo(name="c", kind="local", state=ClusterState.LOST)
    assert resuming.own_cluster(was, there) == "c"
    with pytest.raises(
        Conflict, match=r"The cluster c of the run r is gone, so name another one\. Clusters that are running: d"
    ):
        resuming.own_cluster(was, [gone, there[1]])
    with pytest.raises(Conflict, match="No cluster is running: start one"):
        resuming.own_cluster(was, [])
