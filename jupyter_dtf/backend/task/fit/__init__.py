"""``model.fit`` on every task of a run. The client half is ``notebook/fit.py``."""

from __future__ import annotations

from typing import Any

from ....schema.strategy import InGraph, ParameterServer, Pipeline
from .job import FitJob


def run(job: FitJob, ctx: Any) -> Any:
    """Train ``job`` as one of ``ctx.size`` tasks. Returns a FitResult on the chief, None elsewhere."""
    # Imported here, so that a client can name this function without importing TensorFlow.
    match job.strategy:
        case ParameterServer():
            from .parameter_server import train
        case InGraph():
            from .towers import train
        case Pipeline():
            from .pipeline.client import train
        case _:
            from .main import train
    return train(job, ctx)
