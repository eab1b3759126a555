"""Which tests run, and in which order, by how many seconds they have taken: ``seconds.json``.

Where files of tests run side by side, the longest begin first: the last one to end then ends soon. With ``--quick``, as
`make test` runs them, long tests are left out; a test that is not in ``seconds.json`` is not long.
``pytest tests/python -n 2 --dist loadfile --write-seconds`` notes the seconds of the tests that it runs.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

SECONDS = Path(__file__).with_name("seconds.json")
NOTED_S = 0.5
CASES_S = 1.5
"""How long the cases of one test may take together, with ``--quick``."""
CASE_S = 4.0
"""How long the only case of a test may take then."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="Leave out long tests that are not marked as quick.")
    parser.addoption("--write-seconds", action="store_true", help=f"Note in {SECONDS.name} how long each test took.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    known: dict[str, float] = json.loads(SECONDS.read_text())
    if config.getoption("--quick"):
        chosen = quick([item.nodeid for item in items if not item.get_closest_marker("extended")], known)
        here = [item for item in items if item.nodeid in chosen or item.get_closest_marker("quick")]
        config.hook.pytest_deselected(items=[item for item in items if item not in here])
        items[:] = here
    if hasattr(config, "workerinput"):  # of pytest-xdist, which has the order of its workers
        of_file: Counter[str] = Counter()
        for item in items:
            of_file[_file(item.nodeid)] += known.get(item.nodeid, 0)  # type: ignore[assignment]
        items.sort(key=lambda item: -of_file[_file(item.nodeid)])


def quick(nodeids: Iterable[str], known: Mapping[str, float]) -> set[str]:
    """Return the tests that are not long: of each, the cases that take CASES_S together, or one of up to CASE_S."""
    spent: defaultdict[str, list[float]] = defaultdict(list)
    chosen = set()
    for nodeid in nodeids:
        before, seconds = spent[nodeid.partition("[")[0]], known.get(nodeid, 0.0)
        if sum(before) + seconds <= (CASES_S if before else CASE_S):
            before.append(seconds)
            chosen.add(nodeid)
    return chosen


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--write-seconds"):
        return
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid] += report.duration  # type: ignore[assignment]
    known: dict[str, float] = json.loads(SECONDS.read_text())
    known = {nodeid: value for nodeid, value in known.items() if nodeid not in seconds}
    noted = Counter({**known, **{nodeid: round(value, 1) for nodeid, value in seconds.items() if value >= NOTED_S}})
    SECONDS.write_text(json.dumps(dict(noted.most_common()), indent=1) + "\n")


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
