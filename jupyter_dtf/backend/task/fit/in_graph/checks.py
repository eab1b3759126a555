"""Contains the checks of ``dtf.InGraph``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from .....schema.strategy import InGraph
from .. import limits
from ..checks import Asked, Check, Checks
from ..job import FitJob
from .replica_names import check_devices


class InGraphChecks(Checks):
    """The checks of a strategy that gives each device a replica and a share of the batch."""

    def sharing(self, asked: Asked) -> int | None:
        assert isinstance(asked.strategy, InGraph)
        return len(asked.strategy.devices) or super().sharing(asked)

    def is_exact(self, job: FitJob) -> bool:
        return not job.scale_lr

    def of_tasks(self, asked: Asked) -> Iterator[Check]:
        assert isinstance(asked.strategy, InGraph)
        if asked.jobs is not None:
            yield partial(check_devices, asked.strategy.devices, asked.jobs)
        yield partial(limits.refuse_fewer_devices, asked.strategy, asked.min_workers)
