"""Draws the picture of ``scaling_picture`` as SVG, with a panel for each family of strategies. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, GAP = 420, 300, 70
LEFT, TOP, BELOW = 64, 56, 92
BLUE, GREY, ORANGE, INK = "#1f77b4", "#8a8a8a", "#d95f02", "#222222"


@dataclass(frozen=True)
class Panel:
    """The panel of one family. Sequences have a value for each of ``tasks``.

    ``measured`` has the minimum, the median and the maximum, keyed by number of tasks.
    """

    title: str
    tasks: Sequence[int]
    value: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    linear: Sequence[float]
    measured: Mapping[int, tuple[float, float, float]]
    shared: Mapping[int, float]
    """The forecast if tasks share the cores, keyed by number of tasks; empty if there are enough cores."""


class _Scale:
    """Maps numbers of tasks and examples per second to positions in a panel. Both scales are logarithmic."""

    def __init__(self, panels: Sequence[Panel], left: float) -> None:
        self.most_tasks = max(panel.tasks[-1] for panel in panels)
        values = [value for panel in panels for value in (*panel.low, *panel.linear, *_medians(panel))]
        self.least = 10 ** math.floor(math.log10(min(values)))
        self.most = 10 ** math.ceil(math.log10(max(values)))
        self._left = left

    def x(self, tasks: float) -> float:
        return self._left + WIDTH * math.log2(tasks) / math.log2(self.most_tasks)

    def y(self, value: float) -> float:
        share = math.log(max(value, self.least) / self.least) / math.log(self.most / self.least)
        return TOP + HEIGHT * (1 - share)

    def line(self, tasks: Sequence[int], values: Sequence[float]) -> str:
        return " ".join(f"{self.x(count):.1f},{self.y(value):.1f}" for count, value in zip(tasks, values, strict=True))


def draw(panels: Sequence[Panel], title: str, note: str) -> str:
    """Return the text of an SVG file."""
    width = LEFT + len(panels) * (WIDTH + GAP)
    height = TOP + HEIGHT + BELOW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(LEFT, 20, title.capitalize(), size=15),
    ]
    for number, panel in enumerate(panels):
        parts += _panel(panel, _Scale(panels, LEFT + number * (WIDTH + GAP)), LEFT + number * (WIDTH + GAP))
    parts += _legend(LEFT, TOP + HEIGHT + 56, any(panel.shared for panel in panels))
    parts.append(_text(LEFT, TOP + HEIGHT + 80, note, fill=GREY))
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, scale: _Scale, left: float) -> list[str]:
    parts = [_text(left, TOP - 12, panel.title, size=13)]
    parts += [f'<rect x="{left}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#cccccc"/>']
    tasks = 1
    while tasks <= scale.most_tasks:
        parts.append(_text(scale.x(tasks), TOP + HEIGHT + 16, str(tasks), anchor="middle"))
        tasks *= 2
    value = scale.least
    while value <= scale.most:
        place = scale.y(value)
        parts.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{place:.1f}" y2="{place:.1f}" stroke="#eeeeee"/>')
        parts.append(_text(left - 6, place + 4, _short(value), anchor="end"))
        value *= 10
    parts.append(_text(left + WIDTH / 2, TOP + HEIGHT + 34, "tasks", anchor="middle"))
    around = scale.line(panel.tasks, panel.high) + " " + scale.line(panel.tasks[::-1], panel.low[::-1])
    parts.append(f'<polygon points="{around}" fill="{BLUE}" fill-opacity="0.18"/>')
    parts.append(_polyline(scale.line(panel.tasks, panel.linear), GREY, "6 4"))
    parts.append(_polyline(scale.line(panel.tasks, panel.value), BLUE))
    if panel.shared:
        parts.append(_polyline(scale.line(list(panel.shared), list(panel.shared.values())), ORANGE, "2 3"))
    for count, (least, median, most) in panel.measured.items():
        x = scale.x(count)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{scale.y(least):.1f}" y2="{scale.y(most):.1f}" stroke="{INK}"/>'
        )
        parts.append(f'<circle cx="{x:.1f}" cy="{scale.y(median):.1f}" r="4" fill="{ORANGE}" stroke="{INK}"/>')
    return parts


def _legend(x: float, y: float, has_shared: bool) -> list[str]:
    parts = [f'<circle cx="{x + 12}" cy="{y - 4}" r="4" fill="{ORANGE}" stroke="{INK}"/>', _text(x + 24, y, "measured")]
    entries = [("forecast and band", BLUE, ""), ("linear", GREY, "6 4")]
    if has_shared:
        entries.append(("forecast where tasks share the cores", ORANGE, "2 3"))
    x += 100
    for words, colour, dashes in entries:
        parts += [_polyline(f"{x},{y - 4} {x + 26},{y - 4}", colour, dashes), _text(x + 32, y, words)]
        x += 60 + 6.5 * len(words)
    return parts


def _polyline(points: str, colour: str, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>'


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 12, fill: str = INK) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{fill}">{escape(words)}</text>'
    )


def _medians(panel: Panel) -> list[float]:
    return [median for _, median, _ in panel.measured.values()]


def _short(value: float) -> str:
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g}{suffix}"
    return f"{value:g}"
