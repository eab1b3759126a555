"""Writes the matrix into its page of the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tools.wrap import wrapped

from .cells import every_trial
from .expected import expected
from .rows import Differs, Equal, Expected, Refused
from .running import STRATEGIES, TASKS_COUNTED

PAGE = Path(__file__).parents[3] / "docs" / "exactness.md"
BEGIN, END = "<!-- the matrix: written by `make matrix` -->", "<!-- the end of the matrix -->"
HEADINGS = {
    "optimizers": "Optimizers",
    "losses": "Losses",
    "metrics": "Metrics",
    "callbacks": "Callbacks",
    "layers": "Layers",
    "models": "Whole models",
}
COLUMNS = {"allreduce": "all-reduce", "ps": "parameter servers", "mirrored": "in-graph", "pipeline": "pipeline"}


def text() -> str:
    """Return the text between the two marks of the page."""
    rows: dict[str, list[str]] = {kind: [] for kind in HEADINGS}
    for trial in every_trial():
        rows[trial.kind] += trial.rows
    notes: dict[str, int] = {}
    parts = []
    for kind, found in rows.items():
        parts += [f"### {HEADINGS[kind]}", "", *_table(kind, found, notes), ""]
    reasons = [f"{number}. {why}" for why, number in notes.items()]
    return "\n".join([BEGIN, "", *parts, "### Why", "", *reasons, "", END])


def _table(kind: str, rows: Sequence[str], notes: dict[str, int]) -> list[str]:
    """Return a line that lists the rows that are equal everywhere, and a table of the other rows."""
    cells = {row: [_cell(kind, row, strategy, notes) for strategy in STRATEGIES] for row in rows}
    equal = [row for row, found in cells.items() if set(found) == {"equal"}]
    lines = [f"Equal everywhere: {', '.join(f'`{row}`' if kind != 'models' else row for row in equal)}."]
    others = [row for row in rows if row not in equal]
    if others:
        lines += ["", f"| | {' | '.join(COLUMNS.values())} |", f"|---{'|---' * len(COLUMNS)}|"]
        lines += [f"| {row} | {' | '.join(cells[row])} |" for row in others]
    return lines


def _cell(kind: str, row: str, strategy: str, notes: dict[str, int]) -> str:
    by_tasks = {tasks: _words(expected(kind, row, strategy, tasks, 0.0), notes) for tasks in TASKS_COUNTED}
    if len(set(by_tasks.values())) == 1:
        return next(iter(by_tasks.values()))
    return ", ".join(f"{words} on {tasks} tasks" for tasks, words in by_tasks.items())


def _words(found: Expected, notes: dict[str, int]) -> str:
    match found:
        case Equal():
            return "equal"
        case Refused(_, why):
            return f"refused ({notes.setdefault(why, len(notes) + 1)})"
        case Differs(limit, why):
            return f"differs by up to {limit:g} ({notes.setdefault(why, len(notes) + 1)})"


def written(page: str) -> str:
    """Return the page with the current matrix in it, wrapped like all pages."""
    before, _, rest = page.partition(BEGIN)
    return wrapped(before + text() + rest.partition(END)[2])
