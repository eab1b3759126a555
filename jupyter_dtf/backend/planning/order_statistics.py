"""How long several wait for the slowest of them, or for all but the slowest. Pure.

The time of a step varies from task to task and from step to step. It is taken to be lognormal: never below 0, with a
longer tail above than below.
"""

from __future__ import annotations

import math
from statistics import NormalDist

_NORMAL = NormalDist()
_BLOM = 0.375


def expected(rank: int, count: int, variation: float) -> float:
    """The mean of the ``rank``-th shortest of ``count`` times whose mean is 1 and standard deviation ``variation``.

    By Blom's approximation of normal order statistics (1958): off by less than 1 % of a standard deviation.
    """
    if count < 2 or variation <= 0:
        return 1.0
    spread = math.sqrt(math.log1p(variation**2))
    quantile = _NORMAL.inv_cdf((rank - _BLOM) / (count + 1 - 2 * _BLOM))
    return math.exp(spread * quantile - spread**2 / 2)


def slowest(count: int, variation: float) -> float:
    """The mean of the longest of ``count`` such times."""
    return max(1.0, expected(count, count, variation))
