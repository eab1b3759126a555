"""The checks of jobs with parameter servers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from .....schema.strategy import ParameterServer
from .. import limits
from ..checks import Asked, Check, Checks
from ..job import FitJob


class ServedChecks(Checks):
    """The checks for a run whose servers hold the variables and their parts of the optimizer."""

    def is_exact(self, job: FitJob) -> bool:
        assert isinstance(job.strategy, ParameterServer)
        return job.strategy.sync and not job.strategy.backup_workers and not job.scale_lr

    def of_tasks(self, asked: Asked) -> Iterator[Check]:
        if asked.jobs is not None:
            workers = sum(count for job, count in asked.jobs.items() if job != "ps")
            yield partial(limits.refuse_backups, _strategy(asked), workers)
        yield partial(limits.refuse_fewer_than_backups, _strategy(asked), asked.min_workers)

    def of_model(self, asked: Asked, model: Any) -> Iterator[Check]:
        from .limits import refuse_unsupported, refuse_what_cannot_skip

        strategy = _strategy(asked)
        if (sharing := self.sharing(asked)) is not None:
            yield partial(limits.refuse_stateful, model, sharing)
        yield partial(limits.refuse_built_for_others, strategy.name, model)
        yield partial(limits.refuse_losses_of_whole_batch, model)
        yield partial(refuse_unsupported, strategy, model, _servers(asked), scale_lr=asked.scale_lr)
        if strategy.backup_workers:
            has_length = asked.has_length or asked.steps_per_epoch is not None
            yield partial(refuse_what_cannot_skip, model, has_length=has_length)

    def of_built(self, asked: Asked, model: Any) -> Iterator[Check]:
        from .limits import refuse_without_weights

        yield partial(refuse_without_weights, model)
        yield partial(limits.refuse_unshared, model)
        if (_servers(asked) or 0) > 1:
            from .slots import refuse_undivided

            yield partial(refuse_undivided, model.optimizer, model.trainable_variables)
        if _strategy(asked).backup_workers:
            from ..losses import is_plain_mean
            from .limits import refuse_sums

            yield lambda: refuse_sums(is_plain_mean(model))


def _strategy(asked: Asked) -> ParameterServer:
    assert isinstance(asked.strategy, ParameterServer)
    return asked.strategy


def _servers(asked: Asked) -> int | None:
    return None if asked.jobs is None else asked.jobs.get("ps", 0)
