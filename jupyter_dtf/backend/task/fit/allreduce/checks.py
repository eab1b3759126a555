"""Contains the checks of ``dtf.AllReduce``."""

from __future__ import annotations

from .....schema.strategy import AllReduce
from ..checks import Checks
from ..job import FitJob


class AllReduceChecks(Checks):
    """The checks of a strategy that gives every task the whole model and a share of the batch."""

    def is_exact(self, job: FitJob) -> bool:
        strategy = job.strategy
        assert isinstance(strategy, AllReduce)
        plain = (strategy.op, strategy.compression, strategy.backward_passes_per_step) == ("average", "none", 1)
        return plain and strategy.clip_norm is None and not job.scale_lr
