from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_dtf.errors import InvalidInput, NotFound, Unavailable
from jupyter_dtf.schema.base import to_plain
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.schema.design import VERSION, ClusterDesign, Design
from jupyter_dtf.schema.text import InvalidText

from .any_design import attempt, designs, free, is_in

DESIGNS = Path(__file__).parents[2] / "designs"
FULL = (DESIGNS / "full.dtf").read_text(encoding="utf-8")


def test_a_design_is_written_as_it_was_read() -> None:
    design = Design.parse(FULL)
    assert design.text() == FULL
    assert all(getattr(design, field) for field in design.__struct_fields__)


def test_what_a_text_leaves_out_is_as_in_a_new_design() -> None:
    assert Design.parse("{}") == Design()
    assert Design.parse('{"version": 1, "cluster": {"jobs": {"ps": 1}}}') == Design(
        cluster=ClusterDesign(jobs={"ps": 1})
    )


def test_a_design_from_before_inputs_were_drawn_is_read() -> None:
    plain = json.loads(FULL)
    del plain["model"]["graph"]["inputs"]
    design = Design.parse(json.dumps(plain))
    assert design.model is not None and design.model.graph.inputs == []
    assert design.model.graph.layers[0].id == "encoder/dense"


@given(designs)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_any_design_is_read_as_it_was_written(design: Design) -> None:
    text = design.text()
    assert Design.parse(text) == design
    assert Design.parse(text).text() == text


def changed(plain: Any, path: list[Any], value: Any) -> Any:
    """Return a copy with another value at a path, whose steps are the numbers of members, modulo their count."""
    if not path or not isinstance(plain, (dict, list)) or not plain:
        return value
    keys = list(plain) if isinstance(plain, dict) else list(range(len(plain)))
    key = keys[path[0] % len(keys)]
    copy = plain.copy()
    copy[key] = changed(plain[key], path[1:], value)
    return copy


@given(st.lists(st.integers(0, 20), max_size=7), free, st.integers(0, len(FULL)), st.text(max_size=3))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_any_change_of_a_text_is_read_or_refused_with_its_place(
    path: list[int], value: Any, at: int, typed: str
) -> None:
    for text in (json.dumps(changed(json.loads(FULL), path, value)), FULL[:at] + typed + FULL[at + len(typed) :]):
        design, refused = attempt(Design.parse, text)
        if refused is None:
            assert Design.parse(design.text()) == design
        else:
            assert is_in(text, refused)


@pytest.mark.parametrize(
    ("before", "after", "field", "message"),
    [
        ('"jobs": {', '"jobz": {', "cluster.jobz", "unknown field `jobz`"),
        ('"index": 1, "host": "node-b"', '"index": "one"', "cluster.tasks[1].index", "Expected `int`, got `str`"),
        ('"host": "node-b", ', "", "cluster.tasks[1]", "missing required field `host`"),
        ('"latency_s": 0.00025', '"latency_s": -1', "calibration.link", "`latency_s` >= 0, got"),
        (
            '"logits": "/job:worker/task:1/device:GPU:0"\n',
            '"logits": 1\n',
            "placement.devices.logits",
            "Expected `str`, got `int`",
        ),
        ('"microbatches": 8', '"microbatches": 8.5', "run.microbatches", "Expected `int`, got `float`"),
        ('"version": 1', '"version": 2', "version", "at most 1, got 2, which was written by a newer version"),
        ('"version": 1', '"version": "1"', "version", "`version` must be an integer >= 0, got '1'"),
        ('"version": 1', '"version": true', "version", "`version` must be an integer >= 0, got True"),
        ('"model": "digits"', '"model": "digits" "', "", "A design must be JSON: Expecting ',' delimiter"),
    ],
)
def test_a_mistake_is_refused_with_its_place(before: str, after: str, field: str, message: str) -> None:
    assert FULL.count(before) == 1
    text = FULL.replace(before, after)
    with pytest.raises(InvalidText) as refused:
        Design.parse(text)
    assert message in str(refused.value)
    assert field in refused.value.field
    line = text.split("\n")[refused.value.line - 1]
    assert after.rstrip("\n") in line or field == "calibration.link"
    assert line[refused.value.column - 1] != " "


@pytest.mark.parametrize("text", ["[]", "1", "null", '"a"'])
def test_a_design_is_an_object(text: str) -> None:
    with pytest.raises(InvalidText, match="Expected `object`"):
        Design.parse(text)


# -- older versions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [{}, {"version": 0}])
def test_a_request_saved_by_the_panel_becomes_a_design(version: dict[str, int]) -> None:
    request = ClusterRequest(name="two", kind="local", jobs={"worker": 3}, options={"hosts": 2}, keep=True)
    design = Design.parse(json.dumps({**to_plain(request), **version}))
    assert design == Design(cluster=ClusterDesign(name="two", jobs={"worker": 3}, options={"hosts": 2}))
    assert json.loads(design.text())["version"] == VERSION


def test_a_mistake_in_an_older_version_has_its_place_too() -> None:
    with pytest.raises(InvalidText, match="unknown field `colour`") as refused:
        Design.parse('{"version": 0,\n "jobs": {},\n "colour": 1}')
    assert (refused.value.line, refused.value.column) == (3, 12)


# -- files ---------------------------------------------------------------------------------------------------------


def test_a_file_is_saved_and_opened(tmp_path: Path) -> None:
    design = Design.parse(FULL)
    path = tmp_path / "x.dtf"
    path.touch(mode=0o640)
    link = tmp_path / "link.dtf"
    link.symlink_to(path)
    design.save(link)
    assert link.is_symlink() and path.read_text(encoding="utf-8") == FULL
    assert path.stat().st_mode & 0o777 == 0o640
    assert Design.open(str(link)) == design
    assert sorted(os.listdir(tmp_path)) == ["link.dtf", "x.dtf"]


def test_files_that_are_no_designs(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no design "):
        Design.open(tmp_path / "x.dtf")
    with pytest.raises(Unavailable, match="cannot be read"):
        Design.open(tmp_path)
    with pytest.raises(Unavailable, match="cannot be written"):
        Design().save(tmp_path / "missing" / "x.dtf")
    (tmp_path / "x.dtf").write_bytes(b"\xff")
    with pytest.raises(InvalidText, match="A design must be UTF-8"):
        Design.open(tmp_path / "x.dtf")
    (tmp_path / "x.dtf").write_text('{\n  "run": 1}')
    with pytest.raises(InvalidText, match=r"x.dtf, line 2, column 10: .*Expected `object`"):
        Design.open(tmp_path / "x.dtf")


def test_a_design_that_has_no_text_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Numbers must be finite"):
        Design(drawing={"x": float("nan")}).save(tmp_path / "x.dtf")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_is_an_empty_design(text: str) -> None:
    assert Design.parse(text) == Design()
