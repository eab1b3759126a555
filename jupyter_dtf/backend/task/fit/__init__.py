"""Runs ``model.fit`` on every task of a run. Each strategy has its own subpackage. The client side is
``client/fit.py``.
"""

from __future__ import annotations

from typing import Any

from .job import FitJob


def run(job: FitJob, ctx: Any) -> Any:
    """Train ``job`` as one of ``ctx.size`` tasks. Return a FitResult on the chief, None on the other tasks."""
    from .strategies import implementation_of

    try:
        return implementation_of(job.strategy).train(job, ctx)
    except SystemExit as error:  # it would end this task as if training were complete, while the others wait
        raise RuntimeError(
            f"Training must not be ended with sys.exit, but sys.exit({error.code!r}) was called: set "
            "model.stop_training = True, or raise an error"
        ) from error
