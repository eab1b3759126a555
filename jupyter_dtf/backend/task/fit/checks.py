"""Checks whether jobs can be trained over several tasks. These checks are common to all strategies, which add their
own.

The client runs the checks before anything starts, as far as it has the information; the designer runs them when a model
is chosen. The tasks check properties that are known only in a task: models that are created by functions, and the
number of devices that share a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ....errors import InvalidInput
from ....schema.cluster import FIRST_JOBS
from ....schema.strategy import Strategy
from ..model.keras_io import has_its_weights
from . import limits
from .job import Arrays, FitJob
from .sources.base import BatchSource

Check = Callable[[], None]


@dataclass(frozen=True)
class Asked:
    """The properties of a ``fit`` run that decide whether a model can be trained."""

    strategy: Strategy
    jobs: Mapping[str, int] | None = None
    """The number of tasks of each job, keyed by job; None if not known yet."""
    shares: int | None = None
    """The number of shares into which a batch is divided; None: it equals the number of tasks that train."""
    scale_lr: bool = False
    has_length: bool = True
    """Whether the number of examples per epoch is known before the tasks read them."""
    steps_per_epoch: int | None = None
    min_workers: int | None = None
    """The smallest number of training tasks with which the run may continue when other tasks are lost; None: all tasks
    are needed.
    """

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
        """The number of tasks that train; None if not known yet."""
        return None if self.jobs is None else sum(self.jobs.get(job, 0) for job in FIRST_JOBS)


class Checks:
    """The ordered checks of a strategy under which tasks share each batch. The checks import TensorFlow only when they
    run.
    """

    def validate(self, asked: Asked, model: Any = None) -> None:
        """Raise InvalidInput for the first failed check. The message says what to change.

        ``model``: a compiled model, or None if it is created in the tasks.
        """
        for check in self._all(asked, model):
            check()

    def validate_built(self, asked: Asked, model: Any) -> None:
        """Run the checks of ``validate`` that need a built model, in the task that has built it."""
        for check in self.of_built(asked, model):
            check()

    def refusals(self, asked: Asked, model: Any) -> list[InvalidInput]:
        """Return the errors of all failed checks; ``validate`` raises only the first one."""
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
            if has_its_weights(model):
                yield from self.of_built(asked, model)

    def is_exact(self, job: FitJob) -> bool:
        """Return whether the first step must equal the same step in one process up to rounding. If so, the two are
        compared.
        """
        raise NotImplementedError

    # -- extended by strategies -----------------------------------------------------------------------------------

    def sharing(self, asked: Asked) -> int | None:
        """Return the number of tasks or devices that compute gradients on their own shares of each batch, or None if
        unknown.
        """
        return asked.shares if asked.shares is not None else asked.workers

    def of_tasks(self, asked: Asked) -> Iterator[Check]:
        """Yield checks of whether the run has the tasks that the strategy needs, and whether the strategy's options fit
        these tasks.
        """
        yield from ()

    def of_model(self, asked: Asked, model: Any) -> Iterator[Check]:
        """Yield the checks of a compiled model."""
        if (sharing := self.sharing(asked)) is not None:
            yield partial(limits.refuse_stateful, model, sharing)
        yield partial(limits.refuse_losses_of_whole_batch, model)

    def of_built(self, asked: Asked, model: Any) -> Iterator[Check]:
        """Yield the checks of a built model."""
        if (self.sharing(asked) or 1) > 1:
            yield partial(limits.refuse_unshared, model)
