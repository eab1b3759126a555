"""``model.predict`` and ``model.evaluate`` over the tasks of a run, of which each takes whole batches.

A batch is computed by one task as one process would compute it, so that what a layer makes of a batch as a whole (its
statistics, its padding) is the same. The client half is ``client/answers.py``.
"""

from __future__ import annotations

from typing import Any

from .job import AnswerJob


def run(job: AnswerJob, ctx: Any) -> Any:
    """Answer ``job`` as one of ``ctx.size`` tasks. Returns this task's ``Part``, or of an evaluation, on the chief, an
    ``Evaluated`` and None elsewhere.
    """
    from . import evaluating, predicting

    return (evaluating if job.evaluates else predicting).answer(job, ctx)
