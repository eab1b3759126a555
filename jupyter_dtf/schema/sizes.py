"""Formats numbers, sizes in bytes and durations in the same way as the panel (``src/model/format.ts``). Pure functions.

Both are tested with the same values, in ``tests/readings.json``. Python and JavaScript round halves differently, and
switch to exponential notation at different sizes; this module follows JavaScript.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal

from .text import as_in_javascript

_UNKNOWN = "\u2013"  # a dash
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SCALES = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))


def number(value: float) -> str:
    """Format a number with up to four significant digits: ``0.0312``, ``12.5k``, ``3e-5``."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "\u2212∞"
    size = abs(value)
    if size and not 1e-3 <= size < 1e15:
        rounded = _rounded(value, 3)
        return f"{as_in_javascript(float(rounded.scaleb(-rounded.adjusted())))}e{rounded.adjusted()}"
    for limit, scale, suffix in _SCALES:
        if size >= limit:
            return f"{_digits(value / scale, 3)}{suffix}"
    return _digits(value, 4)


def duration(seconds: float) -> str:
    """Format a duration in seconds: ``41 s``, ``1m 12s``, ``2h 05m``, ``3d 04h``."""
    if not math.isfinite(seconds):
        return _UNKNOWN
    whole = max(0, math.floor(seconds + 0.5))
    minutes, hours = whole // 60, whole // 3600
    if whole < 60:
        return f"{whole} s"
    if minutes < 60:
        return f"{minutes}m {whole % 60:02}s"
    return f"{hours}h {minutes % 60:02}m" if hours < 24 else f"{hours // 24}d {hours % 24:02}h"


def seconds_(value: float) -> str:
    """Format seconds with three digits: ``1.3 s``, ``4.42 ms``, ``12 µs``. From 120 s, ``duration`` formats them."""
    size = abs(value)
    if not math.isfinite(value) or size >= 120:
        return duration(value)
    if size >= 1 or size == 0:
        return f"{_digits(value, 3)} s"
    return f"{_digits(value * 1e3, 3)} ms" if size >= 1e-3 else f"{_digits(value * 1e6, 3)} µs"


def bytes_(count: float) -> str:
    """Format a size in bytes: ``1.2 GiB``."""
    if not math.isfinite(count):
        return _UNKNOWN
    power = min(len(_BYTE_UNITS) - 1, max(0, int(math.log2(abs(count) or 1) // 10)))
    value = count / 1024**power
    places = 0 if power == 0 or abs(value) >= 100 else 1
    shown = Decimal(value).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return f"{shown if shown else abs(shown)} {_BYTE_UNITS[power]}"


def _digits(value: float, count: int) -> str:
    return as_in_javascript(float(_rounded(value, count))) if value else "0"


def _rounded(value: float, digits: int) -> Decimal:
    """Round a value to a number of significant digits. Halves are rounded away from zero."""
    exact = Decimal(value)
    return exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), ROUND_HALF_UP)
