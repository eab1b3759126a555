"""The implementation of ``ctx.feed()``, which divides data of any supported form among the tasks of ``cluster.run``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ...errors import InvalidInput
from ...schema.cluster import FIRST_JOBS
from .fit.job import Arrays
from .fit.sources.base import BatchSource, Reading, Share

if TYPE_CHECKING:
    from .context import Context

FIELD = "feed"


@dataclass(frozen=True)
class Fed:
    """The data that a run receives through ``feed``."""

    data: Arrays | BatchSource
    batch_size: int | None
    """The number of examples in a global batch, which all tasks share. None: the data is already in batches, or Keras's
    default of 32 applies.
    """
    seed: int | None
    """The seed for shuffling each pass over the data; None: no shuffling."""


def run(fed: Fed, main_fun: Callable[..., Any], args: Any, ctx: Context) -> Any:
    """Run a program with ``feed``. When the program has ended, the other tasks continue to read without this task."""
    ctx.fed = partial(dataset_of, ctx, fed)
    try:
        return main_fun(args, ctx)
    finally:
        share = _share_of(ctx)
        if share is not None and isinstance(fed.data, BatchSource):
            fed.data.leave(ctx, share)


def dataset_of(ctx: Context, fed: Fed) -> Any:
    """Return the dataset of this task's shares of the batches. Raises InvalidInput if this task gets no data."""
    share = _share_of(ctx)
    if share is None:
        raise InvalidInput(
            f"ctx.feed() must be called in a task of the job {' or '.join(FIRST_JOBS)}, not in {ctx.task}",
            field=FIELD,
        )
    if isinstance(fed.data, BatchSource):
        opened = fed.data.open(ctx, Reading(FIELD, share, fed.seed, batch_size=fed.batch_size))
        if opened.division:
            ctx.note("info", f"How {fed.data.what} is divided", opened.division)
        return opened.dataset
    from .fit.array_shares import adapter_of, next_epoch, shares

    return shares(adapter_of(fed.data, fed.batch_size, None, None), share, fed.seed, next_epoch(0))


def _share_of(ctx: Context) -> Share | None:
    """Return this task's share of every batch, or None for tasks of jobs that get no data."""
    tasks = [task for task in ctx.tasks if task.partition(":")[0] in FIRST_JOBS]
    return Share(tasks.index(ctx.task), len(tasks)) if ctx.task in tasks else None
