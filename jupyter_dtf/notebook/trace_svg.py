"""A trace as an SVG timeline: a row for each device, and arrows for the transfers between them. Pure.

Colors are JupyterLab's CSS variables, so the picture follows the theme where it is part of the page. Where it is an
image, it has the colors of the light theme.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..backend.records.chrome_trace import by_device, lanes, longest
from ..client import wording
from ..schema.sizes import bytes_
from ..schema.trace import TraceData, TracedOp, Transfer, task_of
from .still import PALETTE, ticks

if TYPE_CHECKING:
    from ..client.run_trace import Trace

MAX_OPS = 1500
MAX_WARNINGS = 12
_WIDTH, _LEFT, _RIGHT = 960, 170, 14
_HEAD, _AXIS = 34, 24
_LANE, _MAX_LANES = 16, 8
_GAP, _ARROW_GAP = 10, 32
_LINE = 17
_LABEL_WIDTH = 50
_TEXT = "var(--jp-ui-font-color1, #212121)"
_FAINT = "var(--jp-ui-font-color2, #616161)"
_GROUND = "var(--jp-layout-color0, #ffffff)"
_BAND = "var(--jp-layout-color2, #eeeeee)"
_EDGE = "var(--jp-border-color2, #e0e0e0)"
_WARN = "var(--jp-warn-color0, #b26a00)"


def trace_bundle(trace: Trace) -> dict[str, Any]:
    """Return the MIME bundle of a trace that is the last expression of a cell."""
    picture = draw(trace.data)
    # As HTML, the picture is part of the page and has the colors of its theme.
    return {"text/html": f"<div>{picture}</div>", "image/svg+xml": picture, "text/plain": repr(trace)}


def draw(data: TraceData) -> str:
    """Return the SVG document of a trace."""
    shown = longest(data, MAX_OPS)
    rows, height = _rows(shown)
    warnings = [line for warning in data.warnings[:MAX_WARNINGS] for line in _wrapped(f"⚠ {warning}")]
    if len(data.warnings) > MAX_WARNINGS:
        warnings.append(f"and {len(data.warnings) - MAX_WARNINGS} more: trace.warnings")
    if shown.left_out:
        warnings.append(f"The {shown.left_out} shortest operations are not drawn")
    bottom = height + _AXIS
    total = bottom + _LINE * len(warnings) + (8 if warnings else 0)
    items: list[TracedOp | Transfer] = [*shown.ops, *shown.transfers]
    end_us = max([item.start_us + item.duration_us for item in items], default=0.0) or 1.0
    scale = (_WIDTH - _LEFT - _RIGHT) / end_us
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{total}" viewBox="0 0 {_WIDTH} {total}" '
        'style="max-width: 100%; height: auto" font-family="system-ui, sans-serif" font-size="11" role="img">',
        f"<title>{html.escape(heading(data))}</title>",
        f'<rect width="{_WIDTH}" height="{total}" style="fill: {_GROUND}"/>',
        _label(10, 21, heading(data), _TEXT, size=13),
    ]
    parts += _grid(end_us, scale, height)
    for device, row in rows.items():
        parts += row.drawn(device, scale)
    taken: list[tuple[float, float]] = []
    for transfer in sorted(shown.transfers, key=lambda transfer: -transfer.bytes):
        parts += _arrow(transfer, rows, scale, taken)
    parts += [
        _label(10, bottom + _LINE * (number + 1), text, _WARN if text[0] in "⚠\xa0" else _FAINT)
        for number, text in enumerate(warnings)
    ]
    return "".join([*parts, "</svg>"])


def heading(data: TraceData) -> str:
    """Return a one-line summary of a trace."""
    steps = sorted({op.step for op in data.ops})
    if not steps:
        return "Nothing was traced"
    length_us = max(op.start_us + op.duration_us for op in data.ops)
    which = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"
    parts = [which, f"{len(data.ops) + data.left_out} operations", _time(length_us)]
    if data.transfers:
        size = bytes_(sum(transfer.bytes for transfer in data.transfers))
        parts.insert(2, f"{len(data.transfers)} transfers, {size}")
    return " · ".join(parts)


class _Row:
    """A device's row in the picture: it starts at ``top`` px, and its lanes are stacked."""

    def __init__(self, ops: list[TracedOp], top: int, colour: str) -> None:
        self.ops = ops
        self.top = top
        self.colour = colour
        self._lanes = [min(lane, _MAX_LANES - 1) for lane in lanes(ops)]
        self.height = _LANE * (max(self._lanes, default=0) + 1)

    @property
    def middle(self) -> float:
        return self.top + self.height / 2

    def drawn(self, device: str, scale: float) -> Iterator[str]:
        task, kind = task_of(device), device.rpartition("/device:")[2]
        yield f'<rect x="{_LEFT}" y="{self.top}" width="{_WIDTH - _LEFT - _RIGHT}" height="{self.height}" '
        yield f'style="fill: {_BAND}" opacity="0.5"/>'
        yield f'<rect x="10" y="{self.middle - 5:.1f}" width="10" height="10" rx="2" fill="{self.colour}"/>'
        yield _label(26, self.middle + 4, f"{task} {kind}", _TEXT, full=device)
        for op, lane in zip(self.ops, self._lanes, strict=True):
            x, width = _LEFT + op.start_us * scale, max(op.duration_us * scale, 0.5)
            y = self.top + lane * _LANE
            told = f"{op.op} ({op.op_type}), step {op.step}, {_time(op.duration_us)}"
            yield f'<rect x="{x:.2f}" y="{y + 1}" width="{width:.2f}" height="{_LANE - 2}" fill="{self.colour}" '
            yield f'opacity="0.85"><title>{html.escape(told)}</title></rect>'
            name = op.op_type or op.op
            if width > 6 * len(name) + 6:
                yield f'<text x="{x + 3:.1f}" y="{y + 12}" font-size="10" fill="{_ink(self.colour)}">'
                yield f"{html.escape(name)}</text>"


def _rows(data: TraceData) -> tuple[dict[str, _Row], int]:
    """Return a row for each device, and the position at which the last one ends, in px."""
    devices = by_device(data)
    for transfer in data.transfers:
        for device in (transfer.source, transfer.target):
            devices.setdefault(device, [])
    tasks = list(dict.fromkeys(task_of(device) for device in sorted(devices)))
    rows, top = {}, _HEAD
    for device in sorted(devices):
        colour = PALETTE[tasks.index(task_of(device)) % len(PALETTE)]
        rows[device] = _Row(devices[device], top, colour)
        top += rows[device].height + (_ARROW_GAP if data.transfers else _GAP)
    return rows, top


def _grid(end_us: float, scale: float, bottom: int) -> Iterator[str]:
    for value in ticks(0.0, end_us, 8):
        x = _LEFT + value * scale
        yield f'<path d="M{x:.1f} {_HEAD - 4}V{bottom}" style="stroke: {_EDGE}"/>'
        yield _label(x, bottom + 14, _time(value), _FAINT, size=10, anchor="middle")


def _arrow(transfer: Transfer, rows: dict[str, _Row], scale: float, taken: list[tuple[float, float]]) -> Iterator[str]:
    """Draw an arrow from the sender's row, when the tensor is sent, to the receiver's row, when it has arrived.

    The tensor's size is written next to the arrow unless it would cover a label at one of the positions in ``taken``.
    It is always in the title.
    """
    source, target = rows[transfer.source], rows[transfer.target]
    x1, x2 = (_LEFT + at * scale for at in (transfer.start_us, transfer.start_us + transfer.duration_us))
    down = target.top > source.top
    y1 = source.top + source.height if down else source.top
    y2 = target.top if down else target.top + target.height
    tip = f"M{x2:.1f} {y2}l-3.5 {-6 if down else 6}h7z"
    size = bytes_(transfer.bytes)
    told = f"{transfer.tensor}, {size}, step {transfer.step}, {_time(transfer.duration_us)}"
    yield f'<g data-bytes="{transfer.bytes}"><title>{html.escape(told)}</title>'
    yield f'<path d="M{x1:.1f} {y1}L{x2:.1f} {y2}" fill="none" style="stroke: {_TEXT}" stroke-width="1.2"/>'
    yield f'<path d="{tip}" style="fill: {_TEXT}"/>'
    x, y = min((x1 + x2) / 2 + 5, _WIDTH - _LABEL_WIDTH), (y1 + y2) / 2 + 3
    if not any(abs(y - other_y) < 10 and abs(x - other_x) < _LABEL_WIDTH for other_x, other_y in taken):
        taken.append((x, y))
        yield _label(x, y, size, _TEXT, size=10)
    yield "</g>"


def _label(x: float, y: float, text: str, colour: str, *, size: int = 11, anchor: str = "start", full: str = "") -> str:
    title = f"<title>{html.escape(full)}</title>" if full else ""
    text = html.escape(wording.without_control(text))
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" style="fill: {colour}">'
        f"{text}{title}</text>"
    )


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH // 6, subsequent_indent="\xa0" * 5)


def _ink(colour: str) -> str:
    """Return black or white, whichever is legible on a color (relative luminance, WCAG 2.2)."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)]
    return "#000000" if 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.179 else "#ffffff"


def _time(microseconds: float) -> str:
    """Return a time as text: ``250 µs``, ``1.5 ms``, ``2 s``."""
    if microseconds < 1000:
        return f"{microseconds:.3g} µs"
    if microseconds < 1e6:
        return f"{microseconds / 1000:.4g} ms"
    return f"{microseconds / 1e6:.4g} s"
