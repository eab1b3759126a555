from __future__ import annotations

import pytest

from jupyter_dtf.schema.graph import containers_of
from jupyter_dtf.schema.placement import Placement


@pytest.mark.parametrize(
    ("layer", "containers"), [("dense", []), ("block/dense", ["block"]), ("a/b/c/dense", ["a/b/c", "a/b", "a"])]
)
def test_the_nearest_container_comes_first(layer: str, containers: list[str]) -> None:
    assert list(containers_of(layer)) == containers


def test_the_nearest_place_counts() -> None:
    placement = Placement(devices={"a": "x", "a/b/one": "y"}, splits={"a/b": ["x", "y"]})
    assert [placement.placed_as(layer) for layer in ("a/b/one", "a/b/two", "a/three", "four")] == [
        "a/b/one",
        "a/b",
        "a",
        "",
    ]
    assert [placement.devices_of(layer) for layer in ("a/b/one", "a/b/two", "a/three", "four")] == [
        ["y"],
        ["x", "y"],
        ["x"],
        [],
    ]
