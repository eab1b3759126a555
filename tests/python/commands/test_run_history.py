"""Tests of filtering, sorting, comparing, exporting and watching runs, without a cluster."""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jupyter_dtf.commands import arguments
from jupyter_dtf.commands import run_history as history
from jupyter_dtf.commands.watch import View, watch
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.events import Note, Submitted
from jupyter_dtf.schema.origin import Origin, Source
from jupyter_dtf.schema.run import Best, RunInfo, RunState
from jupyter_dtf.schema.run_marks import RunMarks

from ..client.fake_run import FakeRun


def info(run_id: str, strategy: str, loss: float | None, batch: int, *tags: str) -> RunInfo:
    return RunInfo(
        id=run_id,
        name=f"mlp {run_id}",
        cluster="here",
        strategy=strategy,
        state=RunState.SUCCEEDED,
        parameters={"batch_size": batch, "epochs": 3},
        headline={} if loss is None else {"val_loss": loss},
        best={} if loss is None else {"val_loss": Best(value=loss / 2, epoch=2)},
        origin=Origin(model="mlp", commit="ab" * 20),
        marks=RunMarks(tags=list(tags)),
    )


RUNS = [info("a", "ps", 0.5, 64, "good one"), info("b", "allreduce", 0.25, 128), info("c", "ps", None, 256)]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("", "abc"),
        ("strategy = ps", "ac"),
        ("strategy = PS and val_loss < 0.6", "a"),
        ("best.val_loss <= 0.125", "b"),
        ("batch_size >= 128 and strategy != ps", "b"),
        ("val_loss != 0.5", "bc"),
        ("tags ~ good", "a"),
        ("good", "a"),
        ("model = mlp", "abc"),
    ],
)
def test_runs_are_chosen_in_a_persons_words(wanted: str, found: str) -> None:
    assert "".join(run.id for run in history.chosen(RUNS, wanted)) == found


def test_runs_are_sorted_with_those_without_a_value_last() -> None:
    assert [run.id for run in history.chosen(RUNS, by="val_loss")] == ["b", "a", "c"]
    assert [run.id for run in history.chosen(RUNS, by="-val_loss")] == ["a", "b", "c"]
    for wrong in ("no_such > 1", "batch_size < many"):
        with pytest.raises(InvalidInput, match=", got "):
            history.chosen(RUNS, wrong)


def test_columns_and_differences() -> None:
    assert history.columns_table(RUNS, ["id", "batch_size", "best.val_loss", "tags"]).splitlines() == [
        "ID  BATCH_SIZE  BEST.VAL_LOSS  TAGS",
        "a   64          0.25           good one",
        "b   128         0.125",
        "c   256",
    ]
    lines = history.comparison(RUNS[:2]).splitlines()
    assert lines[0].split() == ["mlp", "a", "mlp", "b"]
    differing = {line.split()[1]: line.split()[2:] for line in lines[1:]}
    assert differing["parameters.batch_size"] == ["64", "128"]
    assert differing["last.val_loss"] == ["0.5", "0.25"]
    assert "parameters.epochs" not in differing
    everything = history.comparison(RUNS[:2], everything=True)
    assert "   parameters.epochs      3" in everything
    assert "*  parameters.batch_size  64" in everything


def trained() -> FakeRun:
    fake = FakeRun("mlp")
    fake.give(Submitted(time=1.0, code=[Source(name="train.py", text="print(1)\n")]))
    fake.start()
    for task in ("worker:0", "worker:1"):
        fake.points(task, "loss", [3.0, 2.0, float("nan")])
    fake.progress(3, 3)
    fake.epoch(0, loss=2.5)
    return fake


def test_all_that_is_known_of_a_run() -> None:
    fake = trained()
    said = history.description(fake.run)
    assert "loss    NaN   2.5 (epoch 1)" in said
    assert said.endswith("--code shows the code: train.py")
    assert history.description(fake.run, with_code=True).endswith("train.py\n  print(1)")


def test_no_control_characters_of_others_reach_a_terminal() -> None:
    evil = "\x1b[31mred\x1b]0;owned\x07"
    fake = FakeRun(evil)
    fake.give(Submitted(time=1.0, code=[Source(name=evil, text=f"print(1)  # {evil}\n")]))
    fake.start()
    fake.epoch(0, **{f"loss{evil}": 1.0})
    run = RunInfo(id="a", name=evil, cluster="c", parameters={evil: 1}, origin=Origin(directory="/d", branch=evil))
    texts = [history.description(fake.run, with_code=code) for code in (True, False)]
    texts += [history.comparison([run, RUNS[0]]), history.columns_table([run], ["id", "name"])]
    for text in texts:
        assert "owned" in text
        assert "\x1b" not in text
        assert "\x07" not in text


def test_every_point_is_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake = trained()
    history.export(fake.run, "csv", str(tmp_path / "points.csv"))
    table = pd.read_csv(tmp_path / "points.csv")
    pd.testing.assert_frame_equal(table, fake.run.metrics, check_dtype=False)
    history.export(fake.run, "json")
    found = json.loads(capsys.readouterr().out)
    assert found["run"]["id"] == "run-1"
    assert [series["task"] for series in found["series"]] == ["worker:0", "worker:1"]
    assert found["series"][0]["value"] == [3.0, 2.0, None]
    with pytest.raises(InvalidInput, match="--output"):
        history.export(fake.run, "parquet")
    pytest.importorskip("pyarrow")
    history.export(fake.run, "parquet", str(tmp_path / "points.parquet"))
    assert np.array_equal(pd.read_parquet(tmp_path / "points.parquet")["step"], table["step"])


def test_a_terminal_shows_the_run_with_its_plots() -> None:
    fake = trained()
    fake.give(Note(time=3.0, level="warning", title="Something is slow"))
    view = View(fake.run, io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    for width, height in ((60, 20), (200, 50)):
        lines = view.picture(fake.run.info, width, height)
        assert all(len(line) <= width for line in lines)
        assert lines[0].startswith("mlp running")
        assert lines[1].startswith("loss NaN  best 2.5")
        assert lines[2].split()[0] == "3"
        assert lines[-1] == "warning: Something is slow."


def test_what_is_no_terminal_gets_the_last_picture_alone() -> None:
    fake = trained()
    fake.end()
    out = io.StringIO()
    watch(fake.run, out)
    assert out.getvalue().startswith("mlp succeeded")
    assert out.getvalue().count("mlp") == 1


@pytest.mark.parametrize(
    "words", [["-n", "0"], ["--filter", "strategy=mirrored"], ["--filter", "strategy=x", "--columns", "id"]]
)
def test_a_list_without_hits_does_not_say_that_there_are_no_runs(words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    arguments.add_runs_arguments(parser)
    assert history.listed(RUNS, parser.parse_args(words)) == ([], "No runs match.")
