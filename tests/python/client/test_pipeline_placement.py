"""Tests of how the design that a pipeline names is read, and of what a run's record keeps of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import jupyter_dtf as dtf
from jupyter_dtf.client import pipeline_placement
from jupyter_dtf.schema.design import ClusterDesign, ModelDesign, RunSettings
from jupyter_dtf.schema.graph import LayerGraph
from jupyter_dtf.schema.placement import Placement

PLACED = Placement(devices={"dense": "/job:worker/task:1/device:CPU:0"})
DESIGN = dtf.Design(
    cluster=ClusterDesign(jobs={"worker": 2}, options={"password": "of nobody's business"}),
    model=ModelDesign(graph=LayerGraph(model="digits", layers=[], edges=[])),
    placement=PLACED,
    run=RunSettings(batch_size=32),
    drawing={"folded": ["dense"]},
)


def test_a_design_is_read_once_and_kept_without_what_is_not_the_runs(tmp_path: Path) -> None:
    path = tmp_path / "lab.dtf"
    DESIGN.save(path)
    strategy, design = pipeline_placement.with_placement(dtf.Pipeline(str(path)))
    assert isinstance(strategy, dtf.Pipeline)
    assert strategy.placement == PLACED
    assert design is not None
    assert design.name == str(path)
    kept = dtf.Design.parse(design.text)
    assert (kept.placement, kept.run, kept.model) == (PLACED, DESIGN.run, DESIGN.model)
    assert (kept.cluster.jobs, kept.cluster.options, kept.drawing) == ({"worker": 2}, {}, {})


def test_of_a_long_design_the_model_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.dtf"
    DESIGN.save(path)
    monkeypatch.setattr(pipeline_placement, "MOST_DESIGN", 100)
    _, design = pipeline_placement.with_placement(dtf.Pipeline(str(path)))
    assert design is not None
    kept = dtf.Design.parse(design.text)
    assert (kept.model, kept.placement) == (None, PLACED)


def test_without_a_file_there_is_no_design() -> None:
    strategy = dtf.Pipeline(PLACED)
    assert pipeline_placement.with_placement(strategy) == (strategy, None)
    assert pipeline_placement.with_placement(dtf.AllReduce()) == (dtf.AllReduce(), None)
