"""Tests of which tests ``make test`` leaves out."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from .order import LONG_S, SECONDS, mark_long, with_measured


class Item:
    """The part of a pytest item that is used."""

    def __init__(self, nodeid: str, *marks: str) -> None:
        self.nodeid = nodeid
        self.marks = [*marks]

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None

    def add_marker(self, mark: Any) -> None:
        self.marks.append(mark.name)


def test_the_shortest_of_the_long_tests_of_a_file_stays_and_what_is_not_known() -> None:
    items = [
        Item("a.py::long"),
        Item("a.py::longer"),
        Item("a.py::short"),
        Item("a.py::new"),
        Item("b.py::shortest", "extended"),
        Item("b.py::longer"),
        Item("b.py::longest"),
    ]
    seconds = {"a.py::long": 8, "a.py::longer": 9, "a.py::short": 1, "b.py::shortest": 5, "b.py::longer": 7}
    mark_long(items, {**seconds, "b.py::longest": 60})
    assert [item.nodeid for item in items if "extended" in item.marks] == [
        "a.py::longer",
        "b.py::shortest",
        "b.py::longest",
    ]


def test_files_that_did_not_run_keep_their_seconds() -> None:
    noted: dict[str, dict[str, float]] = {
        "files": {"a.py": 20, "b.py": 9},
        "tests": {"a.py::gone": 12, "a.py::faster": 8, "b.py::long": 7},
    }
    measured = [("a.py::faster", "call", 2.4), ("a.py::new", "setup", 30.0), ("a.py::new", "call", 4.2)]
    reports = [SimpleNamespace(nodeid=nodeid, when=when, duration=s) for nodeid, when, s in measured]
    assert with_measured(noted, reports) == {
        "files": {"a.py": 37, "b.py": 9},
        "tests": {"a.py::new": 4, "b.py::long": 7},
    }


def test_tests_that_were_left_out_keep_their_seconds() -> None:
    noted: dict[str, dict[str, float]] = {"files": {"a.py": 20}, "tests": {"a.py::left out": 12, "a.py::faster": 8}}
    report = SimpleNamespace(nodeid="a.py::faster", when="call", duration=2.4)
    assert with_measured(noted, [report], all_ran=False) == {
        "files": {"a.py": 14},
        "tests": {"a.py::left out": 12},
    }


def test_what_is_noted_are_tests_of_files_that_exist() -> None:
    """If a file is renamed, its long tests are no longer left out, which nobody would notice."""
    noted = json.loads(SECONDS.read_text())["tests"]
    assert min(noted.values()) >= LONG_S
    missing = {name.partition("::")[0] for name in noted} - {
        str(path.relative_to(SECONDS.parents[2])) for path in SECONDS.parent.rglob("test_*.py")
    }
    assert not missing
