"""The table of measured figures and their alternatives."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

_SIGNS: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge}


@dataclass(frozen=True)
class Row:
    """A measured figure and its alternative, if any.

    ``value``, which is the ratio of the two or, without an alternative, the figure itself, is compared with ``target``.
    """

    what: str
    ours: str
    other: str
    value: float
    sign: str
    target: float

    @property
    def reached(self) -> bool:
        return _SIGNS[self.sign](self.value, self.target)


def print_rows(rows: list[Row]) -> None:
    """Print the rows as a table, in which missed targets are marked."""
    lines = [
        (
            row.what,
            row.ours,
            row.other,
            f"{row.value:.3g}",
            f"{row.sign} {row.target:g}",
            "" if row.reached else "MISSED",
        )
        for row in rows
    ]
    lines.insert(0, ("", "ours", "alternative", "ratio", "target", ""))
    widths = [max(len(line[column]) for line in lines) for column in range(6)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print(flush=True)
