"""``model.predict`` and ``model.evaluate`` distributed over the tasks of a run, in whole batches.

Each batch is computed by one task, exactly as a single process would compute it, so that layers that depend on the
batch as a whole (statistics, padding) give the same results. The client's half is ``client/answers.py``.
"""

from __future__ import annotations

from typing import Any

from .job import AnswerJob


def run(job: AnswerJob, ctx: Any) -> Any:
    """Run one task's part of ``job``.

    Returns:
        For ``predict``, this task's ``Part``. For ``evaluate``, an ``Evaluated`` in the chief and None in other tasks.
    """
    from . import evaluating, predicting

    return (evaluating if job.evaluates else predicting).answer(job, ctx)
