"""Measures how much a row's outcome with several tasks differs from its outcome in one process."""

from __future__ import annotations

import numpy as np

from .rows import Outcome


def distance(found: Outcome, wanted: Outcome) -> tuple[float, str]:
    """Return the largest difference in any weight or metric, relative to the largest value of that weight or metric,
    and the name of that weight or metric.
    """
    worst = (0.0, "")
    if set(found.weights) != set(wanted.weights) or set(found.history) != set(wanted.history):
        names = (set(found.weights) ^ set(wanted.weights)) | (set(found.history) ^ set(wanted.history))
        return np.inf, f"only on one side: {sorted(names)}"
    mine = {**found.weights, **found.history}
    theirs = {**wanted.weights, **wanted.history}
    for name, value in theirs.items():
        a, b = np.asarray(mine[name]), np.asarray(value)
        if a.shape != b.shape:
            return np.inf, f"{name}: {a.shape} in place of {b.shape}"
        if a.dtype.kind not in "fiub" or not a.size:
            continue
        a, b = a.astype("float64"), b.astype("float64")
        both = ~(np.isnan(a) & np.isnan(b))
        apart = np.max(np.abs(a - b)[both], initial=0.0) / max(float(np.nanmax(np.abs(b), initial=0.0)), 1e-3)
        apart = np.inf if np.isnan(apart) else float(apart)
        if apart > worst[0]:
            worst = (apart, name)
    return worst
