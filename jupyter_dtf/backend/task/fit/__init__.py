"""``model.fit`` on every task of a run. The client half is ``notebook/fit.py``."""

from __future__ import annotations

from typing import Any

from .job import FitJob


def run(job: FitJob, ctx: Any) -> Any:
    """Train ``job`` as one of ``ctx.size`` tasks. Returns a FitResult on the chief, None elsewhere."""
    from .main import train  # so that a client can name this function without importing TensorFlow

    return train(job, ctx)
