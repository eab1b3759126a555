"""Trains the whole matrix, or the rows that match a regular expression, and writes the table: ``make matrix``."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from dataclasses import replace

from .cells import Cell, cells, every_trial
from .rows import Differs
from .table import PAGE, written


def main(pattern: str = "") -> int:
    """Return the exit status: 1 if a cell is not as expected."""
    begun = time.monotonic()
    trials = [
        replace(trial, rows=tuple(row for row in trial.rows if re.search(pattern, f"{trial.kind}: {row}")))
        for trial in every_trial()
    ]
    found: list[Cell] = []
    for cell in cells([trial for trial in trials if trial.rows]):
        found.append(cell)
        if cell.wrong:
            print(f"{cell.kind}: {cell.row}, {cell.strategy} on {cell.tasks} tasks: {cell.wrong}", flush=True)
        elif isinstance(cell.expected, Differs):
            print(f"{cell.kind}: {cell.row}, {cell.strategy} on {cell.tasks} tasks: apart by {cell.apart:.2g}, as said")
    wrong = [cell for cell in found if cell.wrong]
    kinds = Counter(type(cell.expected).__name__.lower() for cell in found if not cell.wrong)
    print(f"{len(found)} cells in {time.monotonic() - begun:.0f} s: {dict(kinds)}, {len(wrong)} wrong")
    if not pattern:
        PAGE.write_text(written(PAGE.read_text()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
