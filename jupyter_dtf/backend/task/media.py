"""Validation, encoding and thinning of the histograms, images, strings and tables that a program reports."""

from __future__ import annotations

import io
import math
import struct
import threading
import time
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput
from ...schema.arguments import check_integer
from ...schema.events import Cell, Histogram, MediaEvent, Picture, ReportedTable, ReportedText, media_bytes
from ...schema.media import (
    ALL_BYTES,
    ALL_HISTOGRAMS,
    ALL_PICTURES,
    MOST_BINS,
    MOST_COLUMNS,
    MOST_NAMES,
    MOST_PICTURE_BYTES,
    MOST_ROWS,
    MOST_SIDE,
    MOST_TABLE_BYTES,
    MOST_TEXT_BYTES,
)
from ...schema.printable import printable
from ...schema.sizes import bytes_
from .recorder import MOST_OF_A_NAME, number

_PNG = b"\x89PNG\r\n\x1a\n"
_HEAD = struct.Struct(">II")  # the width and height in the IHDR chunk
_COLOURS = {1: 0, 3: 2, 4: 6}
"""PNG's color types, keyed by the number of values per pixel."""


class _OfAName:
    """Counters for the reports under one name.

    ``seen`` is the number of all reports, of which one in ``every`` is sent. ``count`` and ``bytes`` are the number and
    size of the reports that were sent since ``every`` last changed.
    """

    def __init__(self) -> None:
        self.seen = 0
        self.every = 1
        self.count = self.bytes = 0


class Thinned:
    """Decides which reports under a name are sent. Thread-safe.

    All reports are sent until there are ``ALL_HISTOGRAMS`` histograms, or ``ALL_PICTURES`` reports or ``ALL_BYTES``
    bytes of anything else. Then every second report is sent until the same amount is reached again, then every fourth,
    and so on.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[tuple[type[MediaEvent], str], _OfAName] = {}

    def takes(self, kind: type[MediaEvent], name: Any) -> bool:
        """Return whether to create and send the next report under a name.

        If so, the caller must pass the report to ``sends``. Raises InvalidInput if the name is not valid, or there are
        too many names.
        """
        key = kind, _name(name)
        with self._lock:
            known = self._names.get(key)
            if known is None:
                if len(self._names) >= MOST_NAMES:
                    raise InvalidInput(
                        f"A task can report histograms, images, texts and tables under at most {MOST_NAMES} names, "
                        f"got one more, {key[1]!r:.100}: pass the changing part as `step`",
                        field="name",
                    )
                return True
            if known.seen % known.every == 0:
                return True
            known.seen += 1
            return False

    def sends(self, event: MediaEvent) -> None:
        """Count a report that is sent."""
        most = ALL_HISTOGRAMS if isinstance(event, Histogram) else ALL_PICTURES
        with self._lock:
            known = self._names.setdefault((type(event), event.name), _OfAName())
            known.seen += 1
            known.count += 1
            known.bytes += (
                0 if isinstance(event, Histogram) else media_bytes(event)
            )  # the bins of 1,000 histograms are smaller than the limit
            if known.count >= most or known.bytes >= ALL_BYTES:
                known.every *= 2
                known.count = known.bytes = 0


def histogram_of(task: str, name: Any, step: Any, values: Any, bins: Any) -> Histogram:
    """Return a histogram of ``values``, an array or tensor of any shape, with ``bins`` bins of equal width. Raises
    InvalidInput if an argument is not valid.
    """
    bins = check_integer(bins, "bins", 1, MOST_BINS)
    try:
        array = np.asarray(values, np.float64).ravel()
    except (TypeError, ValueError):
        raise InvalidInput(f"`values` must be numbers, got {values!r:.100}", field="values") from None
    finite = array[np.isfinite(array)]
    not_a_number = int(np.isnan(array).sum())
    low, high, counts = 0.0, 0.0, np.zeros(0, np.int64)
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
        if not math.isfinite(high - low):  # the width would overflow
            finite, low, high = finite / 4, low / 4, high / 4
            counts, low, high = np.histogram(finite, bins, (low, high))[0], 4 * low, 4 * high
        elif not _has_bins(low, high, bins):
            counts, high = np.array([finite.size]), low  # the values are numerically equal
        else:
            counts = np.histogram(finite, bins, (low, high))[0]
    return Histogram(
        time=time.time(),
        task=task,
        name=_name(name),
        step=_step(step),
        low=low,
        high=high,
        counts=counts.tolist(),
        not_a_number=not_a_number,
        infinite=array.size - finite.size - not_a_number,
    )


def _has_bins(low: float, high: float, bins: int) -> bool:
    """Return whether floats can represent this many bins between the limits. If not, NumPy raises ValueError."""
    if high - low <= np.finfo(np.float64).eps * bins * max(abs(low), abs(high)):
        return False
    edges = np.linspace(low, high, bins + 1)  # near zero, the product above underflows
    return bool((edges[1:] > edges[:-1]).all())


def picture_of(task: str, name: Any, step: Any, image: Any, caption: Any) -> Picture:
    """Encode an image as PNG.

    ``image`` is an array or tensor of shape ``[height, width]`` or ``[height, width, channels]`` with 1, 3 or 4
    channels, of ``uint8`` or of floats from 0 to 1; the bytes of a PNG file; or a Matplotlib figure. Raises
    InvalidInput if it has none of these forms, or is too large.
    """
    if not isinstance(caption, str):
        raise InvalidInput(f"`caption` must be a string, got {caption!r:.100}", field="caption")
    if isinstance(image, (bytes, bytearray, memoryview)):
        png = bytes(image)
    elif callable(getattr(image, "savefig", None)):
        file = io.BytesIO()
        image.savefig(file, format="png")
        png = file.getvalue()
    else:
        png = png_of(_pixels(image))
    if not (png.startswith(_PNG) and png[12:16] == b"IHDR" and len(png) >= 24):
        raise InvalidInput(f"`image` must be an array or a PNG file, got {png[:16]!r} ...", field="image")
    width, height = _HEAD.unpack_from(png, 16)
    if min(width, height) < 1:
        raise InvalidInput(f"`image` must have pixels, got {width} x {height}", field="image")
    if max(width, height) > MOST_SIDE:
        raise _too_large(f"at most {MOST_SIDE} pixels wide and high", f"{width} x {height}")
    if len(png) > MOST_PICTURE_BYTES:
        raise _too_large(
            f"at most {bytes_(MOST_PICTURE_BYTES)} as PNG", f"{bytes_(len(png))}, {width} x {height} pixels"
        )
    return Picture(
        time=time.time(),
        task=task,
        name=_name(name),
        step=_step(step),
        png=png,
        width=width,
        height=height,
        caption=printable(caption, 1_000),
    )


def png_of(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Encode pixels of shape ``[height, width, channels]``, with 1, 3 or 4 channels, as PNG (W3C), without filters."""
    height, width, values = pixels.shape
    rows = np.zeros((height, 1 + width * values), np.uint8)  # each row begins with its filter type, 0
    rows[:, 1:] = pixels.reshape(height, -1)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, _COLOURS[values], 0, 0, 0)
    return _PNG + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)) + chunk(b"IEND", b"")


def _pixels(image: Any) -> npt.NDArray[np.uint8]:
    try:
        array = np.asarray(image)
    except (TypeError, ValueError):
        raise InvalidInput(f"`image` must be an array of pixels, got {image!r:.100}", field="image") from None
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[2] not in _COLOURS or not array.size:
        shape = list(np.shape(image))
        raise InvalidInput(
            "`image` must have the shape [height, width], or [height, width, channels] with 1, 3 or 4 channels, got "
            f"{shape}",
            field="image",
        )
    if max(array.shape[:2]) > MOST_SIDE:  # check before encoding
        raise _too_large(f"at most {MOST_SIDE} pixels wide and high", f"{array.shape[1]} x {array.shape[0]}")
    if array.dtype in (np.uint8, np.bool_):
        known: npt.NDArray[np.uint8] = array.astype(np.uint8) * (255 if array.dtype == np.bool_ else 1)
        return known
    if not np.issubdtype(array.dtype, np.floating):
        raise InvalidInput(f"`image` must be of uint8 or of floats from 0 to 1, got {array.dtype}", field="image")
    if not ((array >= 0) & (array <= 1)).all():  # also rejects NaN
        raise InvalidInput(
            f"The floats of `image` must be from 0 to 1, got {array.min():g} to {array.max():g}", field="image"
        )
    rounded: npt.NDArray[np.uint8] = np.round(array.astype(np.float64) * 255).astype(np.uint8)
    return rounded


def text_of(task: str, name: Any, step: Any, text: Any) -> ReportedText:
    """Return ``text`` as an event. Raises InvalidInput if it is not a string, or longer than ``MOST_TEXT_BYTES``."""
    if not isinstance(text, str):
        raise InvalidInput(f"`text` must be a string, got {text!r:.100}", field="text")
    size = len(text.encode(errors="replace"))
    if size > MOST_TEXT_BYTES:
        raise InvalidInput(
            f"`text` must be at most {bytes_(MOST_TEXT_BYTES)} long, got {bytes_(size)}: print it, or save it in "
            "ctx.run_dir",
            field="text",
        )
    return ReportedText(time=time.time(), task=task, name=_name(name), step=_step(step), text=printable(text, size))


def table_of(task: str, name: Any, step: Any, table: Any) -> ReportedTable:
    """Return a table as an event. Raises InvalidInput if ``table`` is not a table, or too large.

    ``table`` is a DataFrame, a mapping of columns to their values, or a list of mappings, one for each row.
    """
    columns, rows = _columns_and_rows(table)
    if len(columns) > MOST_COLUMNS or len(rows) > MOST_ROWS:
        raise InvalidInput(
            f"`table` must have at most {MOST_ROWS:,} rows and {MOST_COLUMNS} columns, "
            f"got {len(rows):,} rows and {len(columns)} columns",
            field="table",
        )
    event = ReportedTable(
        time=time.time(), task=task, name=_name(name), step=_step(step), columns=columns, rows=rows
    )  # fmt: skip
    if (size := media_bytes(event)) > MOST_TABLE_BYTES:
        raise InvalidInput(f"`table` must be at most {bytes_(MOST_TABLE_BYTES)}, got {bytes_(size)}", field="table")
    return event


def _columns_and_rows(table: Any) -> tuple[list[str], list[list[Cell]]]:
    if callable(getattr(table, "to_dict", None)) and hasattr(table, "columns"):  # pandas, or similar
        table = {name: list(table[name]) for name in table.columns}
    if isinstance(table, Mapping):
        try:
            values = [list(column) for column in table.values()]
            rows = list(zip(*values, strict=True))
        except (TypeError, ValueError):
            raise InvalidInput(
                "The columns of `table` must be sequences of the same length, got "
                + ", ".join(f"{name}: {value!r:.40}" for name, value in list(table.items())[:5]),
                field="table",
            ) from None
        return _texts(table), [[_cell(value) for value in row] for row in rows]
    if isinstance(table, (list, tuple)) and all(isinstance(row, Mapping) for row in table):
        names = list(dict.fromkeys(name for row in table for name in row))
        return _texts(names), [[_cell(row.get(name)) for name in names] for row in table]
    raise InvalidInput(
        "`table` must be a DataFrame, a mapping of columns to their values, or a list of mappings, one for each row; "
        f"got {table!r:.100}",
        field="table",
    )


def _texts(names: Iterable[Any]) -> list[str]:
    return [printable(str(name), MOST_OF_A_NAME) for name in names]


def _cell(value: Any) -> Cell:
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "numpy"):  # also a tensor
        value = np.asarray(value)
        value = value.item() if value.ndim == 0 else value.tolist()
    if value is None or isinstance(value, bool):
        return value
    if (isinstance(value, int) and abs(value) <= 2**53) or (isinstance(value, float) and math.isfinite(value)):
        return float(value)
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return printable(text, len(text))


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"`name` must be a string with at least one character, got {name!r:.100}", field="name")
    return printable(name, MOST_OF_A_NAME)


def _step(step: Any) -> float:
    at = number(step, "step")
    if not math.isfinite(at):
        raise InvalidInput(f"`step` must be a finite number, got {step!r:.100}", field="step")
    return at


def _too_large(rule: str, received: str) -> InvalidInput:
    return InvalidInput(
        f"`image` must be {rule}, got {received}: make it smaller, or save it in ctx.run_dir", field="image"
    )
