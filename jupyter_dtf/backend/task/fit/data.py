"""Which examples a task sees, step by step.

Arrays: a step's global batch is cut into ``size`` contiguous shares that differ by at most one example, so that all
tasks together do what one process does with that batch. Every epoch's order is drawn from the job's seed alone.
Datasets: a step takes one batch of every task's own dataset; a task that has run out takes part with an empty batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from keras.src import tree
from keras.src.trainers.data_adapters import array_slicing
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

from ....errors import InvalidInput
from .job import Arrays, DataFunction, FitJob
from .reduce.base import Reducer


@dataclass
class TaskData:
    """This task's part of the training or validation data."""

    dataset: tf.data.Dataset
    steps: int | None
    """Steps in one pass over the data, equal on all tasks; None if it shows only when the data end."""
    may_be_empty: bool
    """Whether some task may get a batch of no examples."""
    class_weight: dict[int, float] | None = None
    """What is left for Keras to apply to the dataset's batches."""

    @property
    def ends_by_agreement(self) -> bool:
        """Whether a pass ends with the first step in which no task has an example."""
        return self.steps is None


def training_data(job: FitJob, ctx: Any, reducer: Reducer) -> TaskData:
    """This task's part of the training data. A collective. Raises InvalidInput for data that cannot be used."""
    if isinstance(job.data, Arrays):
        adapter = _adapter(job.data, job.batch_size, job.steps_per_epoch, job.class_weight)
        seed = job.seed if job.shuffle else None
        epoch = job.initial_epoch
        return _shares_of_arrays(adapter, reducer.rank, reducer.size, seed=seed, epoch=epoch, keep_empty=True)
    dataset = _call(job.data, ctx, "data_fn")
    if reducer.size == 1:
        return TaskData(dataset, _length(dataset), may_be_empty=False, class_weight=job.class_weight)
    lengths = reducer.all_gather(_length(dataset))
    if all(n == -1 for n in lengths):  # every one repeats for ever
        if job.steps_per_epoch is None:
            raise InvalidInput(
                "steps_per_epoch says where an epoch of endless datasets ends. Received: steps_per_epoch=None, and "
                "data_fn's dataset repeats for ever on every task",
                field="steps_per_epoch",
            )
        return TaskData(dataset, None, may_be_empty=False, class_weight=job.class_weight)
    known = all(n is not None and n >= 0 for n in lengths)
    if known and len(set(lengths)) == 1:
        return TaskData(dataset, lengths[0], may_be_empty=False, class_weight=job.class_weight)
    if any(n == -1 for n in lengths) and job.steps_per_epoch is None:
        raise InvalidInput(
            f"data_fn's datasets are endless on all tasks or on none. Received lengths by rank (-1: endless): {lengths}"
        )
    nothing = tf.data.Dataset.from_tensors(_empty_batch(dataset.element_spec))
    if known:
        longest = max(lengths)
        padded = dataset.concatenate(nothing.repeat(longest - lengths[reducer.rank]))
        return TaskData(padded, longest, may_be_empty=True, class_weight=job.class_weight)
    return TaskData(dataset.concatenate(nothing.repeat()), None, may_be_empty=True, class_weight=job.class_weight)


def validation_data(job: FitJob, ctx: Any, reducer: Reducer, whole_on_chief: bool) -> TaskData | None:
    """This task's part of the validation data; tasks need not have equally many steps of it, and may have none.

    ``whole_on_chief``: rank 0 gets all of the arrays, the others nothing.
    """
    if job.validation_data is None:
        return None
    if isinstance(job.validation_data, DataFunction):
        dataset = _call(job.validation_data, ctx, "validation_data")
        return TaskData(dataset, _length(dataset), may_be_empty=False)
    adapter = _adapter(job.validation_data, job.validation_batch_size or job.batch_size, job.validation_steps, None)
    rank, size = (0, 1) if whole_on_chief else (reducer.rank, reducer.size)
    data = _shares_of_arrays(adapter, rank, size, seed=None, epoch=0, keep_empty=False)
    if whole_on_chief and reducer.rank != 0:
        data.dataset = data.dataset.take(0)
    if job.validation_steps is not None:
        data.dataset = data.dataset.take(job.validation_steps)
    return data


def _adapter(arrays: Arrays, batch_size: int | None, steps: int | None, class_weight: Any) -> ArrayDataAdapter:
    try:
        return ArrayDataAdapter(
            arrays.x,
            arrays.y,
            sample_weight=arrays.sample_weight,
            batch_size=batch_size,
            steps=steps,
            class_weight=class_weight,
        )
    except ValueError as error:
        raise InvalidInput(str(error)) from error


def _shares_of_arrays(
    adapter: ArrayDataAdapter, rank: int, size: int, *, seed: int | None, epoch: int, keep_empty: bool
) -> TaskData:
    """Batches of one task's shares. ``seed`` None keeps the order; ``epoch`` is the first one's number."""
    count, batch = adapter._num_samples, adapter.batch_size
    full, rest = divmod(count, batch)
    low, high = _share(batch, rank, size)
    rest_low, rest_high = _share(rest, rank, size)
    has_rest = rest > 0 and (keep_empty or rest_high > rest_low)
    has_full = keep_empty or high > low
    steps = has_full * full + has_rest
    passes = tf.Variable(epoch, dtype=tf.int64, trainable=False)

    def indices(_: Any) -> tf.data.Dataset:
        order = tf.range(count, dtype=tf.int64)
        if seed is not None:
            order = tf.random.experimental.stateless_shuffle(order, seed=[seed, passes.assign_add(1) - 1])
        rows = tf.reshape(order[: full * batch], [full, batch])[:, low:high]
        batches = tf.data.Dataset.from_tensor_slices(rows).take(has_full * full)
        if has_rest:
            last = order[full * batch + rest_low : full * batch + rest_high]
            batches = batches.concatenate(tf.data.Dataset.from_tensors(last))
        return batches

    inputs = tree.lists_to_tuples(array_slicing.convert_to_sliceable(adapter._inputs, target_backend="tensorflow"))
    inputs = tree.map_structure(lambda a: a if a is None else tf.convert_to_tensor(a), inputs)

    def gather(chosen: tf.Tensor) -> Any:
        return tree.map_structure(lambda a: a if a is None else tf.gather(a, chosen), inputs)

    options = tf.data.Options()
    # Rewriting the graph of the pipeline costs more than it saves.
    options.experimental_optimization.apply_default_optimizations = False
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    options.autotune.enabled = False
    dataset = tf.data.Dataset.range(1).flat_map(indices).map(gather, name="gather").prefetch(2)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(steps)).with_options(options)
    return TaskData(dataset, steps, may_be_empty=(rest or batch) < size)


def _share(count: int, rank: int, size: int) -> tuple[int, int]:
    """The first and the last but one of ``count`` that belong to ``rank``."""
    return count * rank // size, count * (rank + 1) // size


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
