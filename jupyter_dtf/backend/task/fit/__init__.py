"""``model.fit`` on every task of a run: a room for each strategy. The client half is ``client/fit.py``."""

from __future__ import annotations

from typing import Any

from .job import FitJob


def run(job: FitJob, ctx: Any) -> Any:
    """Train ``job`` as one of ``ctx.size`` tasks. Returns a FitResult on the chief, None elsewhere."""
    from .strategies import room_of

    return room_of(job.strategy).train(job, ctx)
