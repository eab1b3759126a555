"""Which examples a task sees, step by step.

Arrays: a step's global batch is cut into ``size`` contiguous shares that differ by at most one example, so that all
tasks together do what one process does with that batch. Every epoch's order is drawn from the job's seed alone.
Datasets: a step takes one batch of every task's own dataset; a task that has run out takes part with an empty batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from keras.src import tree
from keras.src.trainers.data_adapters import array_slicing
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

from ....errors import InvalidInput
from ..collectives.contract import Alone, Reducer
from .job import Arrays, DataFunction, FitJob
from .losses import is_plain_mean

_ALIGNED = 64
"""Bytes; what TensorFlow's kernels take for granted. The arrays of a payload are."""


@dataclass
class TaskData:
    """This task's part of the training or validation data."""

    dataset: tf.data.Dataset
    steps: int | None
    """What Keras is told of the length of an epoch or validation; None: until the dataset ends."""
    length: int | None
    """The same for people, as far as it is known."""
    may_be_empty: bool = False
    """Whether some task may get a batch of no examples."""
    ends_by_agreement: bool = False
    """Whether an epoch ends with the first step in which no task has an example."""
    first_batches: Callable[[int], list[Any]] | None = None
    """The first so many batches of all tasks together, where one task has all the examples."""
    class_weight: dict[int, float] | None = None
    """What is left for Keras to apply to the dataset's batches."""


@dataclass
class Skip:
    """What of the first epoch is left out, for it has been done."""

    steps: int
    executions: int
    """Of Keras's train function, that are still to be left out."""
    takes: int = 0
    """Batches that each of those takes. 0: they are not in the datasets at all, which cannot be where an execution of
    several steps finds the end of an epoch by a dataset's."""
    passed: int = 0
    """Steps of the epochs before, where ``steps_per_epoch`` says how long they were."""
    first_epoch: int = 0
    """The epoch with which the training began that goes on."""

    def place(self, epoch: int, batches: int, steps: int) -> tuple[int, int]:
        """Where a training goes on with ``epoch`` in arrays of so many batches, of which an epoch has ``steps``: in
        which pass over them, and after how many of its batches.
        """
        if steps == batches:
            return epoch, self.steps
        passes, rest = divmod(self.passed + self.steps, batches)
        return self.first_epoch + passes, rest


def training_data(
    job: FitJob,
    ctx: Any,
    reducer: Reducer,
    steps_per_execution: int,
    *,
    must_find_end: bool = False,
    skip: Skip | None = None,
) -> TaskData:
    """This task's part of the training data. A collective. Raises InvalidInput for data that cannot be used.

    ``must_find_end``: the last step of an epoch is to be known, or followed by one without examples. ``skip``: its
    batches are not there, unless it takes them; the datasets say that they are as long as with them.
    """
    if isinstance(job.data, Arrays):
        adapter = _adapter(job.data, job.batch_size, job.steps_per_epoch, job.class_weight)
        seed = job.seed if job.shuffle else None
        steps = min(job.steps_per_epoch or adapter.num_batches, adapter.num_batches)
        first = partial(_first_batches, adapter, seed, job.initial_epoch) if skip is None else None
        place = (job.initial_epoch, 0)
        if skip is not None and not skip.takes:
            place = skip.place(job.initial_epoch, adapter.num_batches, steps)
        shares = partial(_shares, adapter, reducer, seed, skipped=place)
        may_be_empty = (adapter.partial_batch_size or adapter.batch_size) < reducer.size
        if steps_per_execution == 1:
            # One iterator for all epochs: starting one costs as much as many steps of a small model.
            dataset = shares(tf.data.Dataset.range(place[0], np.iinfo(np.int64).max))
            return TaskData(dataset, steps, steps, may_be_empty, first_batches=first)
        # Keras takes whole executions from an iterator, so this one has to end with the epoch.
        dataset = shares(_next_epoch(place[0]))
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(adapter.num_batches))
        return TaskData(dataset, job.steps_per_epoch, steps, may_be_empty, first_batches=first)
    dataset = _call(job.data, ctx, "data_fn")
    lengths = reducer.all_gather(_length(dataset))
    if skip is not None:
        left_out = (0 if skip.takes else skip.steps) + (skip.passed if -1 in lengths else 0)
        dataset = _without_first(dataset, left_out) if left_out else dataset
    if -1 in lengths and job.steps_per_epoch is None:
        raise InvalidInput(
            "steps_per_epoch says where an epoch of endless datasets ends. Received: steps_per_epoch=None and, by rank "
            f"(-1: endless), datasets of {lengths} batches",
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


def steps_of_epoch(job: FitJob) -> int | None:
    """The length of an epoch, where it does not depend on a dataset. Raises InvalidInput as ``training_data``."""
    if not isinstance(job.data, Arrays):
        return job.steps_per_epoch
    batches = int(_adapter(job.data, job.batch_size, job.steps_per_epoch, job.class_weight).num_batches)
    return min(job.steps_per_epoch or batches, batches)


def validation_data(job: FitJob, ctx: Any, reducer: Reducer, model: Any) -> TaskData | None:
    """This task's part of the validation data; tasks need not have equally many steps of it, and may have none.

    Of a built model whose losses are no plain means, which parts cannot be put together from, rank 0 gets all of the
    arrays and the others nothing.
    """
    if job.validation_data is None:
        return None
    if isinstance(job.validation_data, DataFunction):
        dataset = _call(job.validation_data, ctx, "validation_data")
        return TaskData(dataset, job.validation_steps, None)
    adapter = _adapter(job.validation_data, job.validation_batch_size or job.batch_size, job.validation_steps, None)
    if not is_plain_mean(model):
        parts = _shares_in_order(adapter, Alone()) if reducer.rank == 0 else []
    else:
        parts = _shares_in_order(adapter, reducer)
    if not parts:
        # Of no fixed batch size: otherwise Keras counts the examples of the batch that it fails to get.
        return TaskData(tf.data.Dataset.from_tensor_slices(_tensors(adapter)).batch(1).take(0), None, 0)
    dataset = parts[0].concatenate(parts[1]) if len(parts) > 1 else parts[0]
    steps = sum(int(part.cardinality()) for part in parts)
    steps = min(steps, job.validation_steps or steps)
    return TaskData(dataset.repeat().with_options(_options()), steps, steps)


def _adapter(arrays: Arrays, batch_size: int | None, steps: int | None, class_weight: Any) -> ArrayDataAdapter:
    try:
        return ArrayDataAdapter(
            _with_words(arrays.x),
            _with_words(arrays.y),
            sample_weight=arrays.sample_weight,
            batch_size=batch_size,
            steps=steps,
            class_weight=class_weight,
        )
    except ValueError as error:
        raise InvalidInput(str(error)) from error


def _with_words(value: Any) -> Any:
    """Arrays of strings as tensors, which Keras takes of any shape."""
    return tree.map_structure(
        lambda a: tf.convert_to_tensor(a) if isinstance(a, np.ndarray) and a.dtype == object else a, value
    )


def _next_epoch(first: int) -> tf.data.Dataset:
    """One number, larger by one with every iteration."""
    number = tf.Variable(first, dtype=tf.int64, trainable=False)
    return tf.data.Dataset.range(1).map(lambda _: number.assign_add(1) - 1)


def _without_first(dataset: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """The dataset, of which the first iteration leaves out so many batches. It says that it is as long as before."""
    left = tf.Variable(count, dtype=tf.int64, trainable=False)

    @tf.autograph.experimental.do_not_convert
    def batches(_: tf.Tensor) -> tf.data.Dataset:
        now = left.read_value()
        with tf.control_dependencies([now]):
            then = left.assign(0)
        with tf.control_dependencies([then]):
            return dataset.skip(tf.identity(now))

    length = dataset.cardinality()
    whole = tf.data.Dataset.range(1).flat_map(batches)
    return (
        whole if length == tf.data.UNKNOWN_CARDINALITY else whole.apply(tf.data.experimental.assert_cardinality(length))
    )


def _shares(
    adapter: ArrayDataAdapter,
    reducer: Reducer,
    seed: int | None,
    epochs: tf.data.Dataset,
    skipped: tuple[int, int] = (0, 0),
) -> tf.data.Dataset:
    """Batches of this task's shares, one pass over the data for each of ``epochs``; ``seed`` None keeps the order.

    ``skipped``: an epoch, and how many of its first batches are left out.
    """
    count, batch = adapter._num_samples, adapter.batch_size
    full, rest = divmod(count, batch)
    low, high = _share(batch, reducer)
    rest_low, rest_high = _share(rest, reducer)
    inputs = _tensors(adapter)

    @tf.autograph.experimental.do_not_convert
    def batches_of(epoch: tf.Tensor) -> tf.data.Dataset:
        order = _order(count, seed, epoch)
        batches = tf.data.Dataset.from_tensor_slices(tf.reshape(order[: full * batch], [full, batch])[:, low:high])
        if rest:
            last = order[full * batch + rest_low : full * batch + rest_high]
            batches = batches.concatenate(tf.data.Dataset.from_tensors(last))
        if not skipped[1]:
            return batches
        return batches.skip(tf.where(epoch == skipped[0], tf.constant(skipped[1], tf.int64), tf.constant(0, tf.int64)))

    @tf.autograph.experimental.do_not_convert
    def gather(chosen: tf.Tensor) -> Any:
        return tree.map_structure(lambda a: a if a is None else tf.gather(a, chosen), inputs)

    return epochs.flat_map(batches_of).map(gather).prefetch(2).with_options(_options())


def _order(count: int, seed: int | None, epoch: Any) -> tf.Tensor:
    """The examples of an epoch in the order in which they are taken; ``seed`` None: as they come."""
    order = tf.range(count, dtype=tf.int64)
    return order if seed is None else tf.random.experimental.stateless_shuffle(order, seed=[seed, epoch])


def _first_batches(adapter: ArrayDataAdapter, seed: int | None, epoch: int, count: int) -> list[Any]:
    """The first so many batches of an epoch, or all if there are not so many, whole."""
    order = _order(adapter._num_samples, seed, epoch).numpy()
    inputs = tree.lists_to_tuples(array_slicing.convert_to_sliceable(adapter._inputs, target_backend="tensorflow"))
    bounds = range(0, min(count * adapter.batch_size, len(order)), adapter.batch_size)
    chosen = [order[start : start + adapter.batch_size] for start in bounds]
    return [_cut(lambda a: tf.convert_to_tensor(np.asarray(a)[rows]), inputs) for rows in chosen]  # noqa: B023


def _shares_in_order(adapter: ArrayDataAdapter, reducer: Reducer) -> list[tf.data.Dataset]:
    """Datasets of this task's shares of the full batches and of the rest, as far as they have examples."""
    count, batch = adapter._num_samples, adapter.batch_size
    full, rest = divmod(count, batch)
    low, high = _share(batch, reducer)
    rest_low, rest_high = (full * batch + bound for bound in _share(rest, reducer))
    inputs = _tensors(adapter)

    def full_shares(a: Any) -> Any:
        return tf.reshape(a[: full * batch], [full, batch, *a.shape[1:]])[:, low:high]

    parts = []
    if full and high > low:
        parts.append(tf.data.Dataset.from_tensor_slices(_cut(full_shares, inputs)))
    if rest_high > rest_low:
        parts.append(tf.data.Dataset.from_tensors(_cut(lambda a: a[rest_low:rest_high], inputs)))
    return parts


def _tensors(adapter: ArrayDataAdapter) -> Any:
    """``(x, y, sample_weight)`` as Keras packs them, as tensors."""
    inputs = array_slicing.convert_to_sliceable(adapter._inputs, target_backend="tensorflow")
    return _cut(_tensor, tree.lists_to_tuples(inputs))


def _tensor(array: Any) -> tf.Tensor:
    """A tensor of an array, on the array's own memory where that can be: the tasks of a machine map one file of it.

    ``tf.convert_to_tensor`` copies, and takes three times the memory while it does.
    """
    shared = isinstance(array, np.ndarray) and array.size and array.dtype.kind in "biufc"
    if shared and array.flags.c_contiguous and array.flags.writeable and array.ctypes.data % _ALIGNED == 0:
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    return tf.convert_to_tensor(array)


def _cut(function: Callable[[Any], Any], inputs: Any) -> Any:
    return tree.map_structure(lambda a: a if a is None else function(a), inputs)


def _options() -> tf.data.Options:
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False  # they cost more than they save
    options.autotune.enabled = False
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    return options


def _share(count: int, reducer: Reducer) -> tuple[int, int]:
    """Where this task's part of ``count`` examples begins and ends."""
    return count * reducer.rank // reducer.size, count * (reducer.rank + 1) // reducer.size


def _call(data: DataFunction, ctx: Any, name: str) -> tf.data.Dataset:
    dataset = data.function(ctx)
    if not isinstance(dataset, tf.data.Dataset):
        raise InvalidInput(f"{name}(ctx) returns a batched tf.data.Dataset. Received: {dataset!r:.200}", field=name)
    return dataset


def _length(dataset: tf.data.Dataset) -> int | None:
    """Batches in the dataset, -1 if it is endless, None if it is not known."""
    length = int(dataset.cardinality())
    return {tf.data.INFINITE_CARDINALITY: -1, tf.data.UNKNOWN_CARDINALITY: None}.get(length, length)


def _empty_batch(spec: Any) -> Any:
    """A batch of no examples that fits an element spec."""
    return tf.nest.map_structure(_empty, spec)


def _empty(spec: Any) -> Any:
    shape = [0, *(1 if n is None else n for n in spec.shape.as_list()[1:])] if spec.shape.rank else None
    if shape is None:
        raise InvalidInput(f"data_fn's dataset is batched: its tensors have a first dimension. Received: {spec}")
    if isinstance(spec, tf.RaggedTensorSpec):
        values = tf.zeros([0, *shape[spec.ragged_rank + 1 :]], spec.dtype)
        return tf.RaggedTensor.from_nested_row_splits(values, [tf.zeros([1], tf.int64)] * spec.ragged_rank)
    if isinstance(spec, tf.SparseTensorSpec):
        return tf.SparseTensor(tf.zeros([0, len(shape)], tf.int64), tf.zeros([0], spec.dtype), shape)
    if isinstance(spec, tf.TensorSpec):
        return tf.zeros(shape, spec.dtype)
    raise InvalidInput(f"data_fn's dataset has tensors, ragged or sparse tensors. Received: {spec}")
