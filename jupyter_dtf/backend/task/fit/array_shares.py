"""Divides arrays among tasks: each global batch is cut into ``size`` contiguous shares whose sizes differ by at most 1.

Together, the tasks compute the same result as one process would compute from the whole batch. The order of the examples
in each epoch depends only on the job's seed and the epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from keras import tree

# Keras 3.15: the code that converts and shuffles the arrays passed to fit is not public.
from keras.src.trainers.data_adapters import array_slicing

# Keras 3.15: the code that batches the arrays passed to fit is not public.
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

from ....errors import InvalidInput
from ..collectives.primitive import Reducer
from .dataset_options import unchanged_options
from .job import Arrays
from .mapped_tensor import tensor_of
from .sources.base import Share
from .sources.large_arrays import StoredArray


def adapter_of(arrays: Arrays, batch_size: int | None, steps: int | None, class_weight: Any) -> ArrayDataAdapter:
    """Return Keras's adapter for the arrays. Raises InvalidInput if Keras rejects them or their files are missing."""
    for leaf in tree.flatten((arrays.x, arrays.y, arrays.sample_weight)):
        if isinstance(leaf, StoredArray):
            leaf.open()
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
    """Convert arrays of strings to tensors, which Keras accepts in any shape."""
    return tree.map_structure(
        lambda a: tf.convert_to_tensor(a) if isinstance(a, np.ndarray) and a.dtype == object else a, value
    )


def next_epoch(first: int) -> tf.data.Dataset:
    """Return a dataset of one number: ``first`` when it is iterated for the first time, and one more each time after
    that.
    """
    number = tf.Variable(first, dtype=tf.int64, trainable=False)
    return tf.data.Dataset.range(1).map(lambda _: number.assign_add(1) - 1)


def shares(
    adapter: ArrayDataAdapter,
    reducer: Reducer | Share,
    seed: int | None,
    epochs: tf.data.Dataset,
    skipped: tuple[int, int] = (0, 0),
) -> tf.data.Dataset:
    """Return a dataset of this task's shares of the batches, with one pass over the data for each number in ``epochs``.

    If ``seed`` is None, the examples are not shuffled. ``skipped``: an epoch, and the number of batches to skip at its
    start.
    """
    count, batch = adapter._num_samples, adapter.batch_size
    full, rest = divmod(count, batch)
    low, high = _share(batch, reducer)
    rest_low, rest_high = _share(rest, reducer)
    inputs = _inputs(adapter)

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
        return _gather(inputs, chosen)

    return epochs.flat_map(batches_of).map(gather).prefetch(2).with_options(unchanged_options())


def _order(count: int, seed: int | None, epoch: Any) -> tf.Tensor:
    """Return the indices of an epoch's examples, shuffled unless ``seed`` is None. Shape (count,), int64."""
    order = tf.range(count, dtype=tf.int64)
    return order if seed is None else tf.random.experimental.stateless_shuffle(order, seed=[seed, epoch])


def first_batches(adapter: ArrayDataAdapter, seed: int | None, epoch: int, count: int) -> list[Any]:
    """Return the first ``count`` global batches of an epoch, or all if there are fewer."""
    order = _order(adapter._num_samples, seed, epoch).numpy()
    inputs = _inputs(adapter, np.asarray)
    bounds = range(0, min(count * adapter.batch_size, len(order)), adapter.batch_size)
    chosen = [order[start : start + adapter.batch_size] for start in bounds]
    return [_cut(lambda a: _rows(a, rows), inputs) for rows in chosen]  # noqa: B023


def _rows(array: Any, rows: Any) -> tf.Tensor:
    return tf.convert_to_tensor(array.read(rows) if isinstance(array, StoredArray) else array[rows])


def shares_in_order(adapter: ArrayDataAdapter, reducer: Reducer) -> list[tf.data.Dataset]:
    """Return up to two datasets: this task's shares of the full batches, and its share of the last, partial batch. A
    dataset without examples is omitted.
    """
    count, batch = adapter._num_samples, adapter.batch_size
    full, rest = divmod(count, batch)
    low, high = _share(batch, reducer)
    rest_low, rest_high = (full * batch + bound for bound in _share(rest, reducer))
    inputs = _inputs(adapter)
    if any(isinstance(a, StoredArray) for a in tree.flatten(inputs)):
        return _read_in_order(inputs, full, batch, (low, high), (rest_low, rest_high))

    def full_shares(a: Any) -> Any:
        return tf.reshape(a[: full * batch], [full, batch, *a.shape[1:]])[:, low:high]

    parts = []
    if full and high > low:
        parts.append(tf.data.Dataset.from_tensor_slices(_cut(full_shares, inputs)))
    if rest_high > rest_low:
        parts.append(tf.data.Dataset.from_tensors(_cut(lambda a: a[rest_low:rest_high], inputs)))
    return parts


def _read_in_order(
    inputs: Any, full: int, batch: int, share: tuple[int, int], rest: tuple[int, int]
) -> list[tf.data.Dataset]:
    """Return the datasets of ``shares_in_order`` for arrays that stay in their files.

    ``share``: the bounds of this task's share within a full batch. ``rest``: the bounds of its share of the last,
    partial batch, as indices of examples.
    """
    parts = []
    if full and share[1] > share[0]:
        first = tf.data.Dataset.range(full)
        parts.append(first.map(lambda number: _gather(inputs, number * batch + tf.range(*share, dtype=tf.int64))))
    if rest[1] > rest[0]:
        parts.append(tf.data.Dataset.from_tensors(tf.range(*rest, dtype=tf.int64)).map(partial(_gather, inputs)))
    return parts


def no_batches(adapter: ArrayDataAdapter) -> tf.data.Dataset:
    """Return an empty dataset. Its element spec is that of a batch of the arrays, with an unknown batch size."""
    return tf.data.Dataset.range(1).batch(1).map(partial(_gather, _inputs(adapter))).take(0)


def _inputs(adapter: ArrayDataAdapter, convert: Callable[[Any], Any] | None = None) -> Any:
    """Return ``(x, y, sample_weight)`` in Keras's packed structure. Arrays are converted by ``convert`` or, by default,
    to tensors.

    An array that stays in its file is not converted.
    """

    def converted(array: Any) -> Any:
        if array is None or isinstance(array, StoredArray):
            return array
        return (convert or tensor_of)(array_slicing.convert_to_sliceable(array, target_backend="tensorflow"))

    return tree.map_structure(converted, tree.lists_to_tuples(adapter._inputs))


@tf.autograph.experimental.do_not_convert
def _gather(inputs: Any, chosen: tf.Tensor) -> Any:
    """Return the examples with the indices ``chosen``."""
    return _cut(lambda a: a.gather(chosen) if isinstance(a, StoredArray) else tf.gather(a, chosen), inputs)


def tensors(adapter: ArrayDataAdapter) -> Any:
    """Return ``(x, y, sample_weight)`` in Keras's packed structure, with all arrays as tensors, even those that stay in
    their files.
    """
    return _cut(lambda a: tf.convert_to_tensor(np.asarray(a)) if isinstance(a, StoredArray) else a, _inputs(adapter))


def _cut(function: Callable[[Any], Any], inputs: Any) -> Any:
    return tree.map_structure(lambda a: a if a is None else function(a), inputs)


def _share(count: int, reducer: Reducer | Share) -> tuple[int, int]:
    """Return the start and end of this task's share of ``count`` examples."""
    return count * reducer.rank // reducer.size, count * (reducer.rank + 1) // reducer.size
