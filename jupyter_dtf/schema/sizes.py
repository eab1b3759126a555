"""How many bytes something has, for a person; as in the panel (``src/model/format.ts``)."""

from __future__ import annotations

import math

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def bytes_(count: float) -> str:
    """``1.2 GiB``."""
    power = min(len(_BYTE_UNITS) - 1, max(0, int(math.log2(abs(count) or 1) // 10)))
    value = count / 1024**power
    return f"{value:.0f} {_BYTE_UNITS[power]}" if power == 0 or value >= 100 else f"{value:.1f} {_BYTE_UNITS[power]}"
