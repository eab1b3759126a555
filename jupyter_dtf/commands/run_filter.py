"""Filters runs by expressions such as ``strategy = ps and val_loss < 0.4``, and sorts them. Pure functions."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..errors import InvalidInput

Row = dict[str, Any]
"""A run, as returned by ``client.runs_frame.row``."""

_GROUPS = ("", "parameters.", "last.", "best.", "versions.")
"""Prefixes of column names. If the prefix is omitted, the first one with which the column exists is used."""
_TERM = re.compile(r"\s*([\w.:/ -]*?[\w.:/-])\s*(!=|<=|>=|=|<|>|~)\s*(.*?)\s*", re.DOTALL)
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SEARCHED = ("id", "name", "tags", "note", "model", "cluster", "state")
"""The columns that are searched for a plain word."""


def column(name: str, rows: Sequence[Row]) -> str:
    """Return the full name of a column: ``parameters.batch_size`` for ``batch_size``. Raises InvalidInput."""
    known = dict.fromkeys(key for row in rows for key in row)
    for group in _GROUPS:
        if group + name in known:
            return group + name
    raise InvalidInput(f"The column must be one of {', '.join(known)}, got {name!r}", field="columns")


def chosen(rows: Sequence[Row], text: str) -> list[Row]:
    """Return the rows that match all terms of ``text``, which are joined by ``and``.

    A term is ``COLUMN < VALUE``, with ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=`` or ``~`` (contains), or a word that
    occurs in one of the columns ``_SEARCHED``, such as the name, tags or note. Raises InvalidInput.
    """
    terms = [_term(part, rows) for part in re.split(r"\s+and\s+", text.strip())] if text.strip() and rows else []
    return [row for row in rows if all(holds(row) for holds in terms)]


def ordered(rows: Iterable[Row], by: str) -> list[Row]:
    """Sort rows by a column, in descending order for ``-column``. Rows without a value come last.

    Raises InvalidInput.
    """
    rows = list(rows)
    if not rows:
        return rows
    key = column(by.removeprefix("-"), rows)
    having = [row for row in rows if not _is_missing(row.get(key))]
    having.sort(key=lambda row: _sortable(row[key]), reverse=by.startswith("-"))
    return [*having, *(row for row in rows if _is_missing(row.get(key)))]


def _term(text: str, rows: Sequence[Row]) -> Callable[[Row], bool]:
    match = _TERM.fullmatch(text)
    if match is None:
        word = text.strip().lower()
        return lambda row: any(word in str(row.get(name, "")).lower() for name in _SEARCHED)
    key, sign, wanted = column(match[1], rows), match[2], match[3].strip("\"'")
    if sign == "~":
        return lambda row: wanted.lower() in str(row.get(key, "")).lower()
    compare = _OPERATORS[sign]

    def holds(row: Row) -> bool:
        value = row.get(key)
        if _is_missing(value):
            return sign == "!="
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                return compare(float(value), float(wanted))
            except ValueError:
                raise InvalidInput(
                    f"`{key}` must be compared with a number, got {text.strip()!r}", field="filter"
                ) from None
        return compare(str(value).lower(), wanted.lower())

    return holds


def _is_missing(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _sortable(value: Any) -> tuple[bool, float, str]:
    """Return a sort key that puts numbers before strings, for columns that contain both."""
    if isinstance(value, (int, float)):
        return False, float(value), ""
    return True, 0.0, str(value).lower()
