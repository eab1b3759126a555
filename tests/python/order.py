"""Where files of tests run side by side, the longest begin first: the last one to end then ends soon.

``seconds.json`` says how long files took; one that is not in it may be long, and begins at once.
``pytest tests/python -n 2 --dist loadfile --write-seconds`` writes it anew.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import pytest

SECONDS = Path(__file__).with_name("seconds.json")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-seconds", action="store_true", help=f"Note in {SECONDS.name} how long each file took.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # of pytest-xdist, which has the order of its workers
        known: dict[str, float] = json.loads(SECONDS.read_text())
        items.sort(key=lambda item: -known.get(_file(item.nodeid), math.inf))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--write-seconds"):
        return
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[_file(report.nodeid)] += report.duration  # type: ignore[assignment]
    noted = {name: round(value) for name, value in seconds.most_common()}
    SECONDS.write_text(json.dumps(noted, indent=1) + "\n")


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
