"""A static SVG picture of a search, which frontends without the extension show for ``search.show()``. Pure."""

from __future__ import annotations

import html
import math
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..client import wording
from ..schema.sizes import duration, number
from .still import ticks

if TYPE_CHECKING:
    from ..client.search.trials import Trial

MOST_ROWS = 12
_WIDTH, _PLOT_HEIGHT, _ROW, _HEAD = 820, 170, 18, 34
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 8, 26
_BLUE, _GREEN, _GREY = "#0072b2", "#008a64", "#757575"
_CHARACTERS = 13


def search_still(
    line: str, trials: Sequence[Trial], metrics: Sequence[str], params: Sequence[str], best: Collection[int]
) -> str:
    """Return an SVG document of a search.

    It shows ``line``, the value of the first objective for each trial, and a table of the first ``trials``.
    """
    complete = [
        trial for trial in trials if trial.state == "complete" and math.isfinite(trial.value if trial.value else 0.0)
    ]
    has_plot = bool(complete) and _have_axis([trial.value or 0.0 for trial in complete])
    table = _HEAD + (_PLOT_HEIGHT if has_plot else 0)
    rows = trials[:MOST_ROWS]
    left = len(trials) - len(rows)
    height = table + _ROW * (len(rows) + 1 + (left > 0)) + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="system-ui, sans-serif" font-size="11" role="img">',
        f"<title>{_text(line)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="10" y="21" font-size="13" fill="#212121">{_text(line)}</text>',
    ]
    if has_plot:
        parts += [f'<g transform="translate(0 {_HEAD})">', *_plot(complete, metrics[0], best), "</g>"]
    parts += _table(rows, metrics, params, best, table)
    if left > 0:
        y = table + _ROW * (len(rows) + 2) - 5
        parts.append(f'<text x="10" y="{y}" fill="{_GREY}">and {left} more</text>')
    return "".join([*parts, "</svg>"])


def _plot(complete: Sequence[Trial], metric: str, best: Collection[int]) -> Iterator[str]:
    """Draw the value of each complete trial against its number, with the best in green."""
    values = [trial.value or 0.0 for trial in complete]
    numbers = [trial.number for trial in complete]
    y_low, y_high = _apart(min(values), max(values))
    x_low, x_high = _apart(min(numbers), max(numbers))
    wide, high = _WIDTH - _LEFT - _RIGHT, _PLOT_HEIGHT - _TOP - _BOTTOM
    for value in ticks(y_low, y_high, 4):
        y = _TOP + (y_high - value) / (y_high - y_low) * high
        yield f'<path d="M{_LEFT} {y:.1f}h{wide}" stroke="#e0e0e0"/>'
        yield f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end" fill="{_GREY}">{number(value)}</text>'
    for trial, value in zip(complete, values, strict=True):
        x = _LEFT + (trial.number - x_low) / (x_high - x_low) * wide
        y = _TOP + (y_high - value) / (y_high - y_low) * high
        of, size = (_GREEN, 5) if trial.number in best else (_BLUE, 3.5)
        yield (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" fill="{of}" fill-opacity="0.8">'
            f"<title>trial {trial.number}: {number(value)}</title></circle>"
        )
    yield (
        f'<text x="{_LEFT + wide / 2:.0f}" y="{_PLOT_HEIGHT - 8}" text-anchor="middle" fill="{_GREY}">'
        f"{_text(metric)} by trial, {numbers and min(numbers)} to {max(numbers)}</text>"
    )


def _have_axis(values: Sequence[float]) -> bool:
    """Return whether the values can be plotted on an axis: the difference of two floats may overflow or vanish."""
    low, high = _apart(min(values), max(values))
    return math.isfinite(high - low)


def _apart(low: float, high: float) -> tuple[float, float]:
    margin = (high - low) * 0.04 or abs(low) * 0.1 or 0.5
    return low - margin, high + margin


def _table(
    rows: Sequence[Trial], metrics: Sequence[str], params: Sequence[str], best: Collection[int], top: int
) -> Iterator[str]:
    heads = ["#", "state", *metrics, *params, "time"]
    lines = [
        [
            f"★ {trial.number}" if trial.number in best else str(trial.number),
            trial.state,
            *(_shown(trial.values.get(metric)) for metric in metrics),
            *(_shown(trial.params.get(name)) for name in params),
            "" if trial.seconds is None else duration(trial.seconds),
        ]
        for trial in rows
    ]
    wide = (_WIDTH - 20) / len(heads)
    for index, cells in enumerate([heads, *lines]):
        y = top + _ROW * (index + 1) - 5
        weight = ' font-weight="600"' if not index else ""
        colour = "#212121" if index else "#424242"
        for column, cell in enumerate(cells):
            x = 10 + wide * (column + 1) - 8
            text = cell if len(cell) <= _CHARACTERS else f"{cell[: _CHARACTERS - 1]}…"
            yield f'<text x="{x:.0f}" y="{y}" text-anchor="end" fill="{colour}"{weight}>{_text(text)}</text>'


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(value)
    return str(value)


def _text(text: str) -> str:
    return html.escape(wording.without_control(text))
