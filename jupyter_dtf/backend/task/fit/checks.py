"""What cannot be trained over several tasks: the checks of any strategy. Each strategy's own stand in its room.

The client asks before anything starts, with all that it knows; the designer when a model is chosen; the tasks for what
is known only there: models that functions make, and how many devices share a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ....errors import InvalidInput
from ....schema.cluster import FIRST_JOBS
from ....schema.strategy import Strategy
from . import limits
from .job import Arrays, Data, FitJob
from .sources.base import BatchSource

Check = Callable[[], None]


@dataclass(frozen=True)
class Asked:
    """A fit, as far as it matters to whether a model can be trained so."""

    strategy: Strategy
    jobs: Mapping[str, int] | None = None
    """How many tasks each job has; None where that is not known yet."""
    shares: int | None = None
    """How many share each batch, where that is not the number of tasks that train."""
    scale_lr: bool = False
    has_length: bool = True
    """Whether the examples of an epoch are counted before the tasks have read them."""
    steps_per_epoch: int | None = None
    min_workers: int | None = None
    """With how few tasks that train the run may go on when others are lost; None: with no fewer."""

    @classmethod
    def of(
        cls,
        job: FitJob,
        jobs: Mapping[str, int] | None = None,
        shares: int | None = None,
        min_workers: int | None = None,
    ) -> Asked:
        return cls(
            strategy=job.strategy,
            jobs=jobs,
            shares=shares,
            scale_lr=job.scale_lr,
            has_length=isinstance(job.data, Arrays)
            or (isinstance(job.data, BatchSource) and job.data.batches is not None),
            steps_per_epoch=job.steps_per_epoch,
            min_workers=min_workers,
        )

    @property
    def workers(self) -> int | None:
        """The tasks that train."""
        return None if self.jobs is None else sum(self.jobs.get(job, 0) for job in FIRST_JOBS)


class Checks:
    """The checks of a strategy under which the tasks share each batch, in their order. They import no TensorFlow
    before they run.
    """

    def validate(self, asked: Asked, model: Any = None) -> None:
        """Raise InvalidInput, saying what to change, for the first thing that cannot be. ``model``: a compiled one, or
        None where it is made in the tasks.
        """
        for check in self._all(asked, model):
            check()

    def validate_built(self, asked: Asked, model: Any) -> None:
        """The part of ``validate`` that a model has to be built for, in a task that has built it."""
        for check in self.of_built(asked, model):
            check()

    def refusals(self, asked: Asked, model: Any) -> list[InvalidInput]:
        """Everything for which ``validate`` would raise."""
        found = []
        for check in self._all(asked, model):
            try:
                check()
            except InvalidInput as error:
                found.append(error)
        return found

    def _all(self, asked: Asked, model: Any) -> Iterator[Check]:
        yield from self.of_tasks(asked)
        if model is not None:
            yield partial(limits.refuse_unsupported, model)
            yield from self.of_model(asked, model)
            if model.built:
                yield from self.of_built(asked, model)

    def is_exact(self, job: FitJob) -> bool:
        """Whether the first step is to be that of one process, to rounding: then it is compared with one."""
        raise NotImplementedError

    # -- what a strategy adds to ------------------------------------------------------------------------------------

    def sharing(self, asked: Asked) -> int | None:
        """How many compute gradients on their own part of each batch; None where that is not known."""
        return asked.shares if asked.shares is not None else asked.workers

    def of_tasks(self, asked: Asked) -> Iterator[Check]:
        """Whether the run has the tasks that the strategy needs, and its options fit them."""
        yield from ()

    def of_model(self, asked: Asked, model: Any) -> Iterator[Check]:
        """What a compiled model must be."""
        if (sharing := self.sharing(asked)) is not None:
            yield partial(limits.refuse_stateful, model, sharing)
        yield partial(limits.refuse_losses_of_whole_batch, model)

    def of_built(self, asked: Asked, model: Any) -> Iterator[Check]:
        """What a built one must be."""
        if (self.sharing(asked) or 1) > 1:
            yield partial(limits.refuse_unshared, model)


def _has_length(data: Data) -> bool:
    return isinstance(data, Arrays) or (isinstance(data, BatchSource) and data.batches is not None)
