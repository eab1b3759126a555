"""A static SVG picture of a run's metrics, which frontends without the extension show for ``run.show()``. Pure."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping

import numpy as np

from ..backend.records.decimate import decimate
from ..backend.records.series import Floats, Series
from ..client import wording
from ..schema import metrics as names
from ..schema.run import RunInfo
from ..schema.sizes import duration, number

# The dashboard's palette (src/plots/palette.ts). Its colors can be distinguished with common forms of color blindness,
# and stand out from white.
PALETTE = ("#0072b2", "#c47d00", "#008a64", "#cc74a3", "#4d93d9", "#c6442f", "#8a8a8a", "#7d54c8")

COLUMNS = 3
_PLOT_WIDTH, _PLOT_HEIGHT = 300, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 26, 24
_HEAD = 34
_WARNING = "#d32f2f"

_GREATEST = 1e300  # larger values are drawn as gaps, so that differences are finite

Lines = Mapping[tuple[str, str], Series]


def still(info: RunInfo, lines: Lines) -> str:
    """Return an SVG document with a plot for each metric.

    Each task has a line in each plot. Lines of validation metrics are dashed, and values of whole epochs are dots. A
    dashed mark shows where the values of a metric stop being finite. ``lines`` maps (metric, task) to points, as
    ``Hub.lines`` returns them; means over tasks are left out.
    """
    tasks = [task.task for task in info.tasks]
    colours = {task: PALETTE[number % len(PALETTE)] for number, task in enumerate(tasks)}
    groups = _groups(lines)
    columns = max(1, min(COLUMNS, len(groups)))
    rows = math.ceil(len(groups) / columns)
    width = max(2, columns) * _PLOT_WIDTH
    height = _HEAD + (rows * _PLOT_HEIGHT if groups else 30)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="system-ui, sans-serif" font-size="11" role="img">',
        f"<title>{_text(summary(info))}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="10" y="21" font-size="13" fill="#212121">{_text(summary(info))}</text>',
    ]
    if not groups:
        parts.append(f'<text x="10" y="{_HEAD + 14}" fill="#616161">No metrics yet</text>')
    shown = {task for _, members in groups for (_, task) in members}
    if len(shown) > 1:
        parts += _legend([task for task in tasks if task in shown], colours, width)
    for place, (metric, members) in enumerate(groups):
        x, y = place % columns * _PLOT_WIDTH, _HEAD + place // columns * _PLOT_HEIGHT
        parts.append(f'<g transform="translate({x} {y})">')
        parts += _plot(metric, members, colours, info.not_finite)
        parts.append("</g>")
    return "".join([*parts, "</svg>"])


def summary(info: RunInfo) -> str:
    """Return the heading of the picture: the run's name, state, epochs and duration."""
    parts = [info.name, f"{wording.MARKS.get(info.state, '●')} {info.state.value}"]
    if info.progress.epochs:
        parts.append(f"epoch {info.progress.epoch}/{info.progress.epochs}")
    if info.started and info.ended:
        parts.append(duration(info.ended - info.started))
    return " · ".join(parts)


def _groups(lines: Lines) -> list[tuple[str, dict[tuple[str, str], Series]]]:
    """Return the plots in the dashboard's order: the loss first and speed metrics last.

    A validation metric is in the same plot as the corresponding training metric.
    """
    groups: dict[str, dict[tuple[str, str], Series]] = {}
    all_names = {metric for metric, _ in lines}
    for (metric, task), series in lines.items():
        base = names.family(metric, all_names)
        if task and len(series) and not names.is_load(base):
            groups.setdefault(base, {})[metric, task] = series

    def rank(metric: str) -> int:
        if metric in names.SPEED:
            return 2 + names.SPEED.index(metric)
        return 0 if metric == "loss" else 1

    return [(metric, groups[metric]) for metric in sorted(groups, key=rank)]


def _legend(tasks: list[str], colours: dict[str, str], width: int) -> Iterator[str]:
    x = width - 10.0
    for task in reversed(tasks[: len(PALETTE)]):
        x -= 7 * len(task) + 22
        yield f'<rect x="{x:.0f}" y="15" width="12" height="3" fill="{colours[task]}"/>'
        yield f'<text x="{x + 16:.0f}" y="21" fill="#424242">{_text(task)}</text>'


def _plot(
    metric: str,
    members: Mapping[tuple[str, str], Series],
    colours: Mapping[str, str],
    not_finite: Mapping[str, str],
) -> Iterator[str]:
    """Draw one plot with its axes, with its upper left corner at the origin."""
    kept = {}
    for key, series in members.items():
        values = series.value  # read once, because another thread may be adding points
        values = np.where(np.abs(values) <= _GREATEST, values, np.nan)
        indices = decimate(values, _PLOT_WIDTH)
        kept[key] = series.step[indices], values[indices]
    x_low, x_high = _range([x for x, _ in kept.values()])
    y_low, y_high = _range([y for _, y in kept.values()])
    y_low, y_high = y_low - 0.04 * (y_high - y_low), y_high + 0.04 * (y_high - y_low)
    x_ticks, y_ticks = ticks(x_low, x_high, 4), ticks(y_low, y_high, 4)
    wide, high = _PLOT_WIDTH - _LEFT - _RIGHT, _PLOT_HEIGHT - _TOP - _BOTTOM

    def at_x(x: Floats) -> Floats:
        return _LEFT + (x - x_low) / (x_high - x_low) * wide

    def at_y(y: Floats) -> Floats:
        return _TOP + (y_high - y) / (y_high - y_low) * high

    yield f'<text x="{_LEFT}" y="16" font-weight="600" fill="#212121">{_text(wording.metric_title(metric))}</text>'
    for value, y in zip(y_ticks, at_y(np.array(y_ticks)), strict=True):
        yield f'<path d="M{_LEFT} {y:.1f}h{wide}" stroke="#e0e0e0"/>'
        label = wording.metric_value(metric, value)
        yield f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end" fill="#616161" font-size="10">{label}</text>'
    for value, x in zip(x_ticks, at_x(np.array(x_ticks)), strict=True):
        yield (
            f'<text x="{x:.1f}" y="{_PLOT_HEIGHT - 9}" text-anchor="middle" fill="#616161" font-size="10">'
            f"{number(value)}</text>"
        )
    yield f'<path d="M{_LEFT} {_TOP}v{high}h{wide}" fill="none" stroke="#9e9e9e"/>'
    for (name, task), (x, y) in kept.items():
        if name == names.EPOCH + metric:
            yield from _dots(at_x(x), at_y(y), colours.get(task, PALETTE[0]))
            continue
        dash = ' stroke-dasharray="5 3"' if name.startswith(names.VALIDATION) and x.size > 1 else ""
        yield (
            f'<path d="{_path(at_x(x), at_y(y))}" fill="none" stroke="{colours.get(task, PALETTE[0])}" '
            f'stroke-width="1.5" stroke-opacity="0.85" stroke-linecap="round" stroke-linejoin="round"{dash}/>'
        )
    for name in dict.fromkeys(names.without_form(name) for name, _ in members):
        if name in not_finite:
            of = [series for (other, _), series in members.items() if names.without_form(other) == name]
            first = min(map(_first_not_finite, of))
            yield from _mark(float(at_x(np.array(first))), high, not_finite[name])


def _first_not_finite(series: Series) -> float:
    """Return the first step with a value that is not finite; infinity if there is none."""
    value = series.value
    steps = series.step[: value.size][~np.isfinite(value)]
    return float(steps[0]) if steps.size else math.inf


def _mark(x: float, high: int, text: str) -> Iterator[str]:
    if math.isfinite(x):
        yield (
            f'<path d="M{x:.1f} {_TOP}v{high}" stroke="{_WARNING}" stroke-width="1" stroke-dasharray="4 4">'
            f"<title>{_text(text)}</title></path>"
        )
        anchor = "end" if x > _PLOT_WIDTH / 2 else "start"
        yield (
            f'<text x="{x + (-4 if anchor == "end" else 4):.1f}" y="{_TOP + 10}" text-anchor="{anchor}" '
            f'fill="{_WARNING}" font-size="10">{_text(text)}</text>'
        )


def _dots(xs: Floats, ys: Floats, colour: str) -> Iterator[str]:
    for x, y in zip(xs.tolist(), ys.tolist(), strict=True):
        if math.isfinite(x) and math.isfinite(y):
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}" stroke="#ffffff"/>'


def _range(columns: list[Floats]) -> tuple[float, float]:
    """Return the least and greatest finite value, moved apart a little if they are equal."""
    values = np.concatenate(columns)
    values = values[np.isfinite(values)]
    if not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    if low == high:
        margin = abs(low) * 0.1 or 0.5
        return low - margin, high + margin
    return low, high


def ticks(low: float, high: float, about: int) -> list[float]:
    """Return about ``about`` round numbers from ``low`` to ``high``, 1, 2 or 5 times a power of ten apart."""
    rough = math.log10((high - low) / about)
    steps = [factor * 10.0 ** (math.floor(rough) + more) for more in (0, 1) for factor in (1, 2, 5)]
    step = min(steps, key=lambda step: abs(math.log10(step) - rough))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def _path(x: Floats, y: Floats) -> str:
    """Return an SVG path through the points, broken where a value is not finite. A lone point becomes a dot."""
    commands = []
    pen_down = False
    for px, py in zip(x.tolist(), y.tolist(), strict=True):
        if not (math.isfinite(px) and math.isfinite(py)):
            pen_down = False
            continue
        commands.append(f"{'L' if pen_down else 'M'}{px:.1f} {py:.1f}" + ("" if pen_down else "h.1"))
        pen_down = True
    return "".join(commands)


def _text(text: str) -> str:
    return html.escape(wording.without_control(text))
