"""The division of whole batches among tasks.

If the data consists of arrays, each task takes a contiguous range of batches and reads nothing else. If the data
arrives batch by batch, each task takes every ``size``-th batch, because the number of batches may be unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from keras import tree

from ....errors import InvalidInput
from ..fit.array_shares import adapter_of, tensors
from ..fit.dataset_options import unchanged_options
from ..fit.job import Arrays, DataFunction
from ..fit.single_client import OneClient
from ..fit.sources.base import BatchSource, Reading, Share
from .job import AnswerJob


@dataclass
class TaskBatches:
    """The batches of one task, in order."""

    dataset: tf.data.Dataset
    """All batches, with the same element spec as Keras's own dataset."""
    count: int | None
    """The number of batches; None if unknown."""
    in_turn: bool
    """See ``Part.in_turn``."""
    full: tf.data.Dataset | None = None
    """For arrays, a dataset of only the full batches, whose shapes are static."""
    fulls: int = 0
    """The number of full batches."""


def batches_of(job: AnswerJob, ctx: Any, rank: int, size: int) -> TaskBatches:
    """Return the batches of task ``rank`` of ``size``. Other tasks need not call this. Raises InvalidInput if the data
    is invalid.
    """
    if isinstance(job.data, Arrays):
        return _of_arrays(job, rank, size)
    if isinstance(job.data, BatchSource):
        return _of_source(job, job.data, ctx, rank, size)
    return _of_function(job, job.data, ctx, rank, size)


def _of_arrays(job: AnswerJob, rank: int, size: int) -> TaskBatches:
    assert isinstance(job.data, Arrays)
    adapter = adapter_of(job.data, job.batch_size, job.steps, None)
    batch, total = adapter.batch_size, adapter.num_batches
    total = min(total, job.steps or total)
    first, last = total * rank // size, total * (rank + 1) // size
    fulls = max(min(last, adapter._num_samples // batch) - first, 0)
    inputs = tensors(adapter)

    def cut(a: Any) -> Any:
        return tf.reshape(a[first * batch : (first + fulls) * batch], [fulls, batch, *a.shape[1:]])

    full = tf.data.Dataset.from_tensor_slices(_map(cut, inputs)).with_options(unchanged_options())
    dataset = full
    if adapter.partial_batch_size:
        rest = tf.data.Dataset.from_tensors(_map(lambda a: a[-adapter.partial_batch_size :], inputs))
        # Even if a task gets no partial batch, this makes the static batch size unknown, as when Keras traces its step.
        dataset = full.concatenate(rest.take(last - first - fulls))
    return TaskBatches(dataset.with_options(unchanged_options()), last - first, False, full, fulls)


def _map(function: Any, inputs: Any) -> Any:
    return tree.map_structure(lambda a: a if a is None else function(a), inputs)


def _of_source(job: AnswerJob, source: BatchSource, ctx: Any, rank: int, size: int) -> TaskBatches:
    opened = source.open(ctx, Reading("x", Share(0, 1), batch_size=job.batch_size))
    _check_end(opened.length == -1, source.what, job)
    known = opened.length if opened.length is not None and opened.length >= 0 else None
    return _in_turn(job, opened.dataset, known, rank, size)


def _of_function(job: AnswerJob, data: DataFunction, ctx: Any, rank: int, size: int) -> TaskBatches:
    dataset = data.function(_Alone(ctx))
    if not isinstance(dataset, tf.data.Dataset):
        raise InvalidInput(f"data_fn(ctx) must return a batched tf.data.Dataset, got {dataset!r:.200}", field="x")
    length = int(dataset.cardinality())
    _check_end(length == tf.data.INFINITE_CARDINALITY, "the function's dataset", job)
    return _in_turn(job, dataset, length if length >= 0 else None, rank, size)


class _Alone(OneClient):
    """The ``ctx`` with which a task reads all data, in the order of a single process, before it selects its batches."""

    rank = 0


def _check_end(endless: bool, what: str, job: AnswerJob) -> None:
    if endless and job.steps is None:
        raise InvalidInput(
            f"`steps` must be the number of batches to take, because {what} is infinite, got None", field="steps"
        )


def _in_turn(job: AnswerJob, dataset: tf.data.Dataset, length: int | None, rank: int, size: int) -> TaskBatches:
    if job.steps is not None:
        dataset = dataset.take(job.steps)
        length = min(length, job.steps) if length is not None else None
    dataset = dataset.shard(size, rank)
    count = None if length is None else (length - rank + size - 1) // size
    return TaskBatches(dataset.prefetch(2), count, size > 1)
