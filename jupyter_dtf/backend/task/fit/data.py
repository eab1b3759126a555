"""Provides the examples that a task receives in each step.

With arrays (``array_shares``) and sources of batches (``sources/``), each task takes its share of every global batch.
With functions, a step takes one batch from every task's own dataset; a task whose dataset has ended participates with
an empty batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

# Keras 3.15: no other function applies class weights to datasets.
from keras.src.trainers.data_adapters.tf_dataset_adapter import make_class_weight_map_fn

from ....errors import InvalidInput
from ..collectives.primitive import Alone, Reducer
from .array_shares import adapter_of, first_batches, next_epoch, no_batches, shares, shares_in_order
from .class_weights import weighing
from .dataset_options import unchanged_options
from .job import Arrays, DataFunction, FitJob
from .losses import is_plain_mean
from .sources.base import BatchSource, Reading, Share
from .sources.pass_place import pass_place
from .steps import batch_size


@dataclass
class TaskData:
    """This task's part of the training or validation data."""

    dataset: tf.data.Dataset
    steps: int | None
    """The number of steps per epoch or validation run that is passed to Keras; None: Keras runs until the dataset ends.
    """
    length: int | None
    """The number of steps that is shown to the user, if known."""
    may_be_empty: bool = False
    """Whether a task may get a batch without examples."""
    ends_by_agreement: bool = False
    """Whether an epoch ends with the first step in which no task has examples."""
    first_batches: Callable[[int], list[Any]] | None = None
    """Returns the first ``count`` global batches. None if no single task can read all examples."""
    seen: int = 0
    """The number of batches that earlier epochs have taken from the current pass over the data. Keras must count them
    as part of this pass.
    """
    class_weight: dict[int, float] | None = None
    """The class weights that Keras must still apply to the dataset's batches."""
    steps_of: Callable[[int], int] | None = None
    """Returns the number of steps of an epoch, if epochs differ: an epoch that ends together with a pass over the data
    may be shorter.
    """


@dataclass
class Skip:
    """The part of the first epoch that has already been done and is skipped."""

    steps: int
    executions: int
    """The number of calls to Keras's train function that must still be skipped."""
    takes: int = 0
    """The number of batches that each skipped call takes from the dataset. 0: the datasets do not contain the skipped
    batches. The number cannot be 0 if an execution of several steps detects the end of an epoch by the end of the
    dataset.
    """
    passed: int = 0
    """The number of steps in the previous epochs, if ``steps_per_epoch`` determines their length; otherwise 0."""
    first_epoch: int = 0
    """The first epoch of the training run that is resumed."""

    def place(self, epoch: int, batches: int, steps: int) -> tuple[tuple[int, int], int]:
        """Return a pair: where ``epoch`` resumes, given as a pass over the arrays and the number of its batches already
        taken; and how many of these batches earlier epochs have taken.

        ``batches``: the number of batches per pass. ``steps``: the number of steps per epoch.
        """
        place = pass_place(batches, epoch - self.first_epoch, self.steps, steps)
        return (self.first_epoch + place.passes, place.first), place.seen


def training_data(
    job: FitJob,
    ctx: Any,
    reducer: Reducer,
    steps_per_execution: int,
    *,
    must_find_end: bool = False,
    skip: Skip | None = None,
) -> TaskData:
    """Return this task's part of the training data. A collective. Raises InvalidInput for unusable data.

    ``must_find_end``: whether the tasks must detect the end of an epoch; the last step is then known in advance, or
    followed by a step without examples. ``skip``: the part of the first epoch whose batches are omitted, unless
    ``skip.takes`` is set; the datasets report a length that includes these batches.
    """
    if isinstance(job.data, Arrays):
        adapter = adapter_of(job.data, job.batch_size, job.steps_per_epoch, job.class_weight)
        seed = job.seed if job.shuffle else None
        steps = min(job.steps_per_epoch or adapter.num_batches, adapter.num_batches)
        first = partial(first_batches, adapter, seed, job.initial_epoch) if skip is None else None
        place, seen = (job.initial_epoch, 0), 0
        if skip is not None and not skip.takes:
            place, seen = skip.place(job.initial_epoch, adapter.num_batches, steps)
        divided = partial(shares, adapter, reducer, seed, skipped=place)
        may_be_empty = (adapter.partial_batch_size or adapter.batch_size) < reducer.size
        if steps_per_execution == 1 and (adapter.num_batches % steps == 0 or job.strategy.skips_steps):
            # One iterator for all epochs: creating an iterator takes as long as many steps of a small model.
            dataset = divided(tf.data.Dataset.range(place[0], np.iinfo(np.int64).max))
            return TaskData(dataset, steps, steps, may_be_empty, first_batches=first)
        # Keras takes whole executions from an iterator, and ends an epoch at the end of a pass, so the iterator must
        # also end there.
        dataset = divided(next_epoch(place[0]))
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(adapter.num_batches))
        steps_of = steps_by_epoch(job, adapter.num_batches)
        return TaskData(
            dataset, job.steps_per_epoch, steps, may_be_empty, first_batches=first, seen=seen, steps_of=steps_of
        )
    if isinstance(job.data, BatchSource):
        return _from_source(job, ctx, reducer, must_find_end=must_find_end, skip=skip)
    dataset = _call(job.data, ctx, "data_fn")
    lengths = reducer.all_gather(_length(dataset))
    if skip is not None:
        left_out = (0 if skip.takes else skip.steps) + (skip.passed if -1 in lengths else 0)
        dataset = _without_first(dataset, left_out) if left_out else dataset
    if -1 in lengths and job.steps_per_epoch is None:
        raise InvalidInput(
            "`steps_per_epoch` must be given for endless datasets, got None. The numbers of batches in the tasks' "
            f"datasets, in rank order (-1: endless): {lengths}",
            field="steps_per_epoch",
        )
    known = [n for n in lengths if n is not None and n >= 0]
    length = job.steps_per_epoch or (max(known) if len(known) == len(lengths) else None)
    data = TaskData(dataset, job.steps_per_epoch, length, class_weight=job.class_weight)
    if len(set(lengths)) == 1 and (lengths[0] is not None or (reducer.size == 1 and not must_find_end)):
        return data
    nothing = tf.data.Dataset.from_tensors(_empty_batch(dataset.element_spec))
    data.may_be_empty = True
    if len(known) == len(lengths):
        data.dataset = dataset.concatenate(nothing.repeat(max(known) - known[reducer.rank]))
    else:
        data.dataset = dataset.concatenate(nothing.repeat())
        data.ends_by_agreement = True
    return data


def steps_by_epoch(job: FitJob, batches: int | None) -> Callable[[int], int] | None:
    """Return ``TaskData.steps_of``, or None if all epochs have the same number of steps. ``batches``: the number of
    batches in a pass over the data; if it is None, the function returns None.
    """
    steps = job.steps_per_epoch
    if not batches or steps is None or not batches % steps or job.strategy.skips_steps:
        return None
    first = job.initial_epoch if job.began is None else job.began
    epochs = -(-batches // steps)
    return lambda epoch: min(steps, batches - (epoch - first) % epochs * steps)


def steps_of_epoch(job: FitJob) -> int | None:
    """Return the number of steps per epoch, or None if it depends on a dataset. Raises the same errors as
    ``training_data`` for unusable arrays.
    """
    if isinstance(job.data, BatchSource) and job.steps_per_epoch is None:
        length = job.data.batches
        return None if length == -1 else length
    if not isinstance(job.data, Arrays):
        return job.steps_per_epoch
    batches = int(adapter_of(job.data, job.batch_size, job.steps_per_epoch, job.class_weight).num_batches)
    return min(job.steps_per_epoch or batches, batches)


def validation_data(job: FitJob, ctx: Any, reducer: Reducer, model: Any) -> TaskData | None:
    """Return this task's part of the validation data, or None if the job has no validation data. Tasks may have
    different numbers of steps, or none.

    If the built model has losses that are not plain means, and therefore cannot be combined from parts, rank 0 gets all
    examples and the other tasks get none.
    """
    if job.validation_data is None:
        return None
    if isinstance(job.validation_data, DataFunction):
        dataset = _call(job.validation_data, ctx, "validation_data")
        return TaskData(dataset, job.validation_steps, None)
    if isinstance(job.validation_data, BatchSource):
        return _validation_from_source(job, job.validation_data, ctx, reducer, is_plain_mean(model))
    adapter = adapter_of(job.validation_data, job.validation_batch_size or job.batch_size, job.validation_steps, None)
    if not is_plain_mean(model):
        parts = shares_in_order(adapter, Alone()) if reducer.rank == 0 else []
    else:
        parts = shares_in_order(adapter, reducer)
    if not parts:
        # Without a fixed batch size: otherwise Keras would count the examples of a batch that it cannot get.
        return TaskData(no_batches(adapter), None, 0)
    dataset = parts[0].concatenate(parts[1]) if len(parts) > 1 else parts[0]
    steps = sum(int(part.cardinality()) for part in parts)
    executed = int(model.steps_per_execution)
    if executed > 1:
        # Keras takes whole executions from the iterator, which must therefore end after the last batch.
        wanted = job.validation_steps or steps
        return TaskData(dataset.take(-(-wanted // executed) * executed).with_options(unchanged_options()), None, None)
    steps = min(steps, job.validation_steps or steps)
    return TaskData(dataset.repeat().with_options(unchanged_options()), steps, steps)


def _without_first(dataset: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """Skip ``count`` batches in the first iteration of the dataset, without changing its reported length."""
    left = tf.Variable(count, dtype=tf.int64, trainable=False)

    @tf.autograph.experimental.do_not_convert
    def batches(_: tf.Tensor) -> tf.data.Dataset:
        now = left.read_value()
        with tf.control_dependencies([now]):
            then = left.assign(0)
        with tf.control_dependencies([then]):
            return dataset.skip(tf.identity(now))

    length = dataset.cardinality()
    whole = tf.data.Dataset.range(1).flat_map(batches).with_options(dataset.options())
    return (
        whole if length == tf.data.UNKNOWN_CARDINALITY else whole.apply(tf.data.experimental.assert_cardinality(length))
    )


def _from_source(job: FitJob, ctx: Any, reducer: Reducer, *, must_find_end: bool, skip: Skip | None) -> TaskData:
    """Return this task's shares of the batches of a source. The shares end at the same step on all tasks."""
    source = job.data
    assert isinstance(source, BatchSource)
    share = Share(reducer.rank, reducer.size)
    seed = job.seed if job.shuffle else None
    reading = Reading(
        "x",
        share,
        seed,
        job.initial_epoch,
        batch_size=job.batch_size,
        steps=job.steps_per_epoch,
        passes=job.initial_epoch,
        passes_before=job.initial_epoch if job.began is None else job.began,
        began=job.initial_epoch if job.began is None else job.began,
        own_seed=job.seed,
        in_step=job.strategy.goes_in_step,
    )
    if source.continues and skip is not None:
        passed = skip.passed if job.steps_per_epoch else 0
        reading = replace(reading, within=skip.steps, passed=passed, takes=skip.takes)
    opened = source.open(ctx, reading)
    if opened.length == -1 and job.steps_per_epoch is None:
        raise InvalidInput(
            f"`steps_per_epoch` must be given because {source.what} is endless, got None", field="steps_per_epoch"
        )
    if opened.division:
        ctx.note("info", f"How {source.what} is divided", opened.division)
    dataset, seen = opened.dataset, opened.seen
    epochs = job.initial_epoch - reading.began
    if opened.standing is not None and (skip is not None or epochs):
        steps = skip.steps if skip is not None and not skip.takes else 0
        dataset, seen = opened.standing(epochs, steps, job.steps_per_epoch)
    elif skip is not None and not source.continues:
        if skip.passed and opened.length != -1 and job.steps_per_epoch not in (None, opened.length):
            raise InvalidInput(
                f"Training can resume within {source.what}, which is not endless, only if `steps_per_epoch` is None or "
                f"the number of batches in a pass, got steps_per_epoch={job.steps_per_epoch} with passes of "
                f"{opened.length or 'an unknown number of'} batches",
                field="steps_per_epoch",
            )
        left_out = (0 if skip.takes else skip.steps) + (skip.passed if opened.length == -1 else 0)
        dataset = _without_first(dataset, left_out) if left_out else dataset
    if seen and ((skip is not None and skip.takes) or not job.strategy.goes_in_step):
        raise InvalidInput(
            f"Training can resume within {source.what} only if `steps_per_epoch` is None or the number of batches in a "
            "pass, or if steps_per_execution is 1 and the tasks are synchronous, got "
            f"steps_per_epoch={job.steps_per_epoch} with passes of "
            f"{opened.length or 'an unknown number of'} batches",
            field="steps_per_epoch",
        )
    known = opened.length if opened.length is not None and opened.length >= 0 else None
    first = opened.first_batches if skip is None and not epochs else None
    if job.class_weight is not None:  # not by Keras, which would prefetch batches that not all tasks read
        weigh = (weighing if source.weighs_other_classes else make_class_weight_map_fn)(job.class_weight)
        dataset = dataset.map(weigh)
        first = None if first is None else partial(_weighed, weigh, first)
    data = TaskData(dataset, job.steps_per_epoch, job.steps_per_epoch or known, seen=seen)
    data.steps_of = steps_by_epoch(job, known)
    data.may_be_empty = reducer.size > 1 and (opened.smallest is None or opened.smallest < reducer.size)
    data.first_batches = first
    if must_find_end and opened.length is None:
        data.dataset = dataset.concatenate(tf.data.Dataset.from_tensors(_empty_batch(dataset.element_spec)).repeat())
        data.may_be_empty = data.ends_by_agreement = True
    return data


def _validation_from_source(job: FitJob, source: BatchSource, ctx: Any, reducer: Reducer, is_plain: bool) -> TaskData:
    """Return this task's shares of the validation batches, except shares without examples. If results cannot be
    combined from parts, rank 0 gets all batches and the other tasks get none.
    """
    share = Share(reducer.rank, reducer.size) if is_plain else Share(0, 1)
    reading = Reading(
        "validation_data",
        share,
        batch_size=job.validation_batch_size or job.batch_size,
        steps=job.validation_steps,
        passes=_validations(job, job.initial_epoch),
        passes_before=_validations(job, job.initial_epoch if job.began is None else job.began),
        own_seed=job.seed,
        in_step=job.strategy.goes_in_step,
    )
    opened = source.open(ctx, reading)
    dataset = opened.dataset
    if opened.length == -1 and job.validation_steps is None:
        raise InvalidInput(
            f"`validation_steps` must be given because {source.what} is endless, got None", field="validation_steps"
        )
    if not is_plain and reducer.rank:
        return TaskData(dataset.unbatch().batch(1).take(0), None, 0)  # without a fixed batch size, as in ``no_batches``
    if opened.ends or (share.size > 1 and (opened.smallest is None or opened.smallest < share.size)):
        if job.validation_steps is not None and not opened.ends:
            dataset = dataset.take(job.validation_steps)
        return TaskData(dataset.map(_of_any_size).filter(lambda *batch: batch_size(batch) > 0), None, None)
    # Keras counts the steps: for a dataset that ends after them, it would create two iterators, and shuffle twice.
    return TaskData(dataset, job.validation_steps, None)


def _weighed(weigh: Callable[..., Any], first: Callable[[int], list[Any]], count: int) -> list[Any]:
    """Return the first ``count`` batches, with class weights applied."""
    return [weigh(*batch) for batch in first(count)]


@tf.autograph.experimental.do_not_convert
def _of_any_size(*batch: Any) -> Any:
    """Remove the batch size from a batch's static shapes, because Keras would count the examples of a batch that it
    cannot get.
    """

    def unfixed(leaf: Any) -> Any:
        if not isinstance(leaf, tf.Tensor) or not leaf.shape.rank:
            return leaf
        return tf.compat.v1.placeholder_with_default(leaf, [None, *leaf.shape[1:]])

    found = tf.nest.map_structure(unfixed, batch)
    return found if len(found) > 1 else found[0]


def _validations(job: FitJob, epoch: int) -> int:
    """Return the number of validation runs that training from epoch 0 has completed before ``epoch``."""
    return sum(_is_validated(before, job.validation_freq) for before in range(epoch))


def _is_validated(epoch: int, frequency: Any) -> bool:
    """Return whether Keras validates at the end of ``epoch``, counted from 0."""
    if isinstance(frequency, int):
        return (epoch + 1) % frequency == 0
    return isinstance(frequency, list) and epoch + 1 in frequency


def _call(data: DataFunction, ctx: Any, name: str) -> tf.data.Dataset:
    dataset = data.function(ctx)
    if not isinstance(dataset, tf.data.Dataset):
        raise InvalidInput(f"`{name}` must return a batched tf.data.Dataset, got {dataset!r:.200}", field=name)
    return dataset


def _length(dataset: tf.data.Dataset) -> int | None:
    """Return the number of batches, -1 if endless, None if unknown."""
    length = int(dataset.cardinality())
    return {tf.data.INFINITE_CARDINALITY: -1, tf.data.UNKNOWN_CARDINALITY: None}.get(length, length)


def _empty_batch(spec: Any) -> Any:
    """Return a batch without examples that fits an element spec."""
    return tf.nest.map_structure(_empty, spec)


def _empty(spec: Any) -> Any:
    if spec is None or isinstance(spec, tf.NoneTensorSpec):
        return None
    shape = [0, *(1 if n is None else n for n in spec.shape.as_list()[1:])] if spec.shape.rank else None
    if shape is None:
        raise InvalidInput(
            f"`data_fn` must return a batched dataset, in which every tensor has a batch dimension, got {spec}"
        )
    if isinstance(spec, tf.RaggedTensorSpec):
        values = tf.zeros([0, *shape[spec.ragged_rank + 1 :]], spec.dtype)
        return tf.RaggedTensor.from_nested_row_splits(values, [tf.zeros([1], tf.int64)] * spec.ragged_rank)
    if isinstance(spec, tf.SparseTensorSpec):
        return tf.SparseTensor(tf.zeros([0, len(shape)], tf.int64), tf.zeros([0], spec.dtype), shape)
    if isinstance(spec, tf.TensorSpec):
        return tf.zeros(shape, spec.dtype)
    raise InvalidInput(f"`data_fn` must return a dataset of dense, ragged or sparse tensors, got {spec}")
