"""Tests of runs as a table, and of the names, notes and tags that users give to runs."""

from __future__ import annotations

from jupyter_dtf.client.runs_frame import FACTS, Runs
from jupyter_dtf.schema.origin import Origin
from jupyter_dtf.schema.run import Best, RunInfo, RunState
from jupyter_dtf.schema.run_marks import RunMarks

from .fake_run import FakeRun


def test_a_list_of_runs_is_a_table_as_well() -> None:
    first = RunInfo(
        id="r1",
        name="mlp",
        cluster="here",
        state=RunState.SUCCEEDED,
        jobs={"worker": 2, "ps": 1},
        created=0.0,
        started=10.0,
        ended=12.5,
        parameters={"batch_size": 64},
        headline={"loss": 0.5},
        best={"loss": Best(value=0.25)},
        origin=Origin(model="mlp", weights=9, versions={"Keras": "3.1"}),
        marks=RunMarks(tags=["a", "b"]),
    )
    runs = Runs([first, RunInfo(id="r2", name="other", cluster="here")])
    assert [run.id for run in runs] == ["r1", "r2"]
    frame = runs.frame()
    assert list(frame.index) == ["r1", "r2"]
    row = frame.loc["r1"]
    assert (row["tasks"], row["seconds"], row["tags"], row["weights"]) == (3, 2.5, "a, b", 9)
    assert (row["parameters.batch_size"], row["last.loss"], row["best.loss"]) == (64, 0.5, 0.25)
    assert row["versions.Keras"] == "3.1"
    assert row["created"].isoformat() == "1970-01-01T00:00:00+00:00"
    assert list(frame["best.loss"].isna()) == [False, True]
    html = runs._repr_html_()
    assert "batch_size" in html
    assert "versions." not in html
    assert list(Runs([]).frame().columns) == [name for name in FACTS if name != "id"]


def test_a_run_is_named_tagged_and_deleted() -> None:
    fake = FakeRun("mlp")
    run = fake.run
    run.name, run.note = "better", "because"
    run.tag("a", "b")
    run.tag("a", "c")
    run.untag("b", "never there")
    assert (run.name, run.note, run.tags) == ("better", "because", ["a", "c"])
    run.tags = ["d"]
    assert run.tags == ["d"]
    fake.end()
    run.archive()
    assert run.info.marks.archived
    run.delete()
    assert fake.view.hub.runs() == []
    run.restore()
    assert [info.id for info in fake.view.hub.runs()] == ["run-1"]
    assert not run.info.marks.archived
    run.delete(for_good=True)
    assert repr(run) == "<Run run-1: not known here>"
