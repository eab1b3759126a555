"""A line plot as text, in Braille characters of two by four dots. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..schema.sizes import number

_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""The number that each dot adds to the code point of a Braille character, indexed by row and column."""
_BLANK = 0x2800
_LABEL = 8
"""Characters to the left of a plot, for the values of its top and bottom."""
_GAP = 3
"""The length of the dashes of a dashed line, and of the gaps between them, in columns of dots."""


class Line(NamedTuple):
    """Points in ascending order of x; values that are not finite are gaps."""

    x: npt.NDArray[Any]
    y: npt.NDArray[Any]
    dashed: bool = False


def plot(lines: Sequence[Line], width: int, height: int, *, plain: bool = False) -> list[str]:
    """Return a plot as ``height`` rows of at most ``width`` characters, labeled on the left at the top and bottom.

    ``plain``: whether to use ASCII, with a star for each character that has dots.
    """
    columns = max(1, width - _LABEL - 1)
    finite = [np.isfinite(line.y) & np.isfinite(line.x) for line in lines]
    xs = [line.x[good] for line, good in zip(lines, finite, strict=True)]
    ys = [line.y[good] for line, good in zip(lines, finite, strict=True)]
    if not any(x.size for x in xs):
        return ["", *[""] * (height - 1)][:height]
    x_range = _span([x for x in xs if x.size])
    y_range = _span([y for y in ys if y.size])
    dots = np.zeros((4 * height, 2 * columns), dtype=bool)
    for line, x, y in zip(lines, xs, ys, strict=True):
        _draw(
            dots,
            _places(x, x_range, dots.shape[1]),
            dots.shape[0] - 1 - _places(y, y_range, dots.shape[0]),
            line.dashed,
        )
    cells = dots.reshape(height, 4, columns, 2).transpose(0, 2, 1, 3)
    if plain:
        rows = ["".join("*" if each.any() else " " for each in row) for row in cells]
    else:
        codes = (cells * _BITS).sum(axis=(2, 3))
        rows = ["".join(chr(_BLANK + code) if code else " " for code in row) for row in codes]
    labels = [""] * height
    labels[-1], labels[0] = number(y_range[0]), number(y_range[1])
    return [f"{label[:_LABEL]:>{_LABEL}} {row}".rstrip() for label, row in zip(labels, rows, strict=True)]


def _span(parts: Sequence[npt.NDArray[Any]]) -> tuple[float, float]:
    return min(float(part.min()) for part in parts), max(float(part.max()) for part in parts)


def _places(values: npt.NDArray[Any], span: tuple[float, float], count: int) -> npt.NDArray[np.int64]:
    """Map ``span`` to the positions 0 to ``count - 1``. If its two ends are equal, return the middle position."""
    low, high = span
    if not high > low:
        return np.full(values.shape, count // 2, dtype=np.int64)
    share = values / (high - low) - low / (high - low) if np.isfinite(high - low) else np.full(values.shape, 0.5)
    return np.clip(np.rint(share * (count - 1)), 0, count - 1).astype(np.int64)


def _draw(dots: npt.NDArray[np.bool_], x: npt.NDArray[np.int64], y: npt.NDArray[np.int64], dashed: bool) -> None:
    """Draw one line: in each column, all rows between its least and greatest value, joined with the previous column."""
    known: tuple[int, int] | None = None
    for column in np.unique(x):
        rows = y[x == column]
        low, high = int(rows.min()), int(rows.max())
        if known is not None:
            before, last = known
            between = np.arange(before + 1, column)
            steps = np.rint(np.interp(between, [before, column], [last, int(rows[0])])).astype(int)
            for each, row in zip(between, steps, strict=True):
                if not dashed or each // _GAP % 2 == 0:
                    dots[row, each] = True
            if column == before + 1 and not dashed:
                low, high = min(low, last), max(high, last)
        if not dashed or column // _GAP % 2 == 0:
            dots[low : high + 1, column] = True
        known = int(column), int(rows[-1])
