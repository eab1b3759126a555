"""Determines which tests run with ``make test`` and which only with ``make test-all``, and which files begin first.

``make test`` leaves out the long tests of each file, except the shortest of them, so that it finishes while somebody
waits for it. This module marks the tests that are left out as ``extended``, the mark that test modules also set
themselves.

If several files of tests run at the same time, those that take longest begin first, so that none of them runs alone for
a long time at the end.

``seconds.json`` records how long files and tests took. A test that is not in it is not left out, and a file that is not
in it begins first. ``pytest tests/python -n 2 --dist loadfile --write-seconds`` writes it again; with a few files in
place of ``tests/python``, only their entries are replaced. With ``-m "not extended"``, the entries of the tests that
are left out stay.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

SECONDS = Path(__file__).with_name("seconds.json")
LONG_S = 3
"""The duration in seconds from which a test counts as long."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-seconds", action="store_true", help=f"Record in {SECONDS.name} how long each test took.")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, object, object]:
    known: dict[str, dict[str, float]] = json.loads(SECONDS.read_text())
    mark_long(items, known["tests"])
    done = yield  # pytest selects tests by their marks
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist, which runs files in the order of its workers
        left = dict(known["files"])
        for name in known["tests"].keys() - {item.nodeid for item in items}:
            if (file := _file(name)) in left:
                left[file] -= known["tests"][name]
        items.sort(key=lambda item: -left.get(_file(item.nodeid), math.inf))
    return done


def mark_long(items: list[Any], seconds: dict[str, float]) -> None:
    """Mark long tests as extended, except the shortest one of each file. Tests that are marked already do not count."""
    long: dict[str, list[Any]] = {}
    for item in items:
        if seconds.get(item.nodeid, 0) >= LONG_S and item.get_closest_marker("extended") is None:
            long.setdefault(_file(item.nodeid), []).append(item)
    for of_file in long.values():
        shortest = min(of_file, key=lambda item: seconds[item.nodeid])
        for item in of_file:
            if item is not shortest:
                item.add_marker(pytest.mark.extended)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--write-seconds"):
        return
    reports = [
        report for some in terminalreporter.stats.values() for report in some if isinstance(report, pytest.TestReport)
    ]
    noted = with_measured(json.loads(SECONDS.read_text()), reports, all_ran=not config.option.markexpr)
    SECONDS.write_text(json.dumps(noted, indent=1) + "\n")


def with_measured(
    noted: dict[str, dict[str, float]], reports: Iterable[Any], *, all_ran: bool = True
) -> dict[str, dict[str, float]]:
    """Return ``noted`` with the entries of the reports' files replaced by the measured durations.

    Unless ``all_ran``, the entries of tests without a report stay, and count for their files.
    """
    files: defaultdict[str, float] = defaultdict(float)
    tests: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        files[_file(report.nodeid)] += report.duration
        if report.when == "call":  # fixtures that a test sets up for other tests do not count
            tests[report.nodeid] += report.duration
    long = {name: round(seconds) for name, seconds in tests.items() if round(seconds) >= LONG_S}
    left_out = {name: s for name, s in noted["tests"].items() if not all_ran and name not in tests}
    for name, seconds in left_out.items():
        if _file(name) in files:
            files[_file(name)] += seconds
    others = {name: seconds for name, seconds in noted["tests"].items() if _file(name) not in files}
    of_files = {**noted["files"], **{name: round(seconds) for name, seconds in files.items()}}
    return {
        "files": dict(sorted(of_files.items(), key=lambda file: -file[1])),
        "tests": dict(sorted({**others, **left_out, **long}.items())),
    }


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
