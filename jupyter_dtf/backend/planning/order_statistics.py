"""The expected time until all of several tasks, or all but the slowest ones, have finished. Pure.

The time of a step varies from task to task and from step to step. It is modeled as lognormal: never below 0, and
skewed to the right.
"""

from __future__ import annotations

import math
from statistics import NormalDist

_NORMAL = NormalDist()
_BLOM = 0.375


def expected(rank: int, count: int, variation: float) -> float:
    """Return the mean of the ``rank``-th shortest of ``count`` times of mean 1 and standard deviation ``variation``.

    Uses Blom's approximation of normal order statistics (1958), with an error below 1% of a standard deviation.
    """
    if count < 2 or variation <= 0:
        return 1.0
    spread = math.sqrt(math.log1p(variation**2))
    quantile = _NORMAL.inv_cdf((rank - _BLOM) / (count + 1 - 2 * _BLOM))
    return math.exp(spread * quantile - spread**2 / 2)


def slowest(count: int, variation: float) -> float:
    """Return the mean of the longest of ``count`` times, distributed as in ``expected``."""
    return max(1.0, expected(count, count, variation))
