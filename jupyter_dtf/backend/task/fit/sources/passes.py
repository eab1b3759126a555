"""Restores a dataset that reshuffles in each pass to its state after earlier passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from .graph_view import SEEDS, GraphView


class Passes:
    """The passes over a dataset.

    Each shuffle draws from its own generator once per iterator. To restore the generators, this class recreates the
    iterators that Keras had created up to a step.
    """

    def __init__(self, view: GraphView, dataset: tf.data.Dataset, length: int | None, count: Callable[[], int]) -> None:
        """Initialize the passes. ``count``: a function that returns the number of batches in a pass, counted in another
        copy of the dataset.
        """
        self._dataset = dataset
        self._count = count
        self._length = length
        drawing = [node for node in view.datasets() if node.op in SEEDS]
        self._draws = bool(drawing)
        repeats = [node for node in view.datasets() if "Repeat" in node.op]
        self._draws_more = len(drawing) > 1 or bool(drawing and repeats)

    def standing(self, epochs: int, steps: int, steps_per_epoch: int | None) -> tuple[tf.data.Dataset, int]:
        """Return a pair: the dataset in its state after ``epochs`` epochs and ``steps`` more steps, so that its first
        pass is the rest of the current pass; and the number of batches of this pass that earlier epochs have taken.
        """
        dataset, length = self._dataset, self._length
        seen = 0
        if steps_per_epoch is None:
            # Keras creates two iterators in an epoch of known length, the second one at the end.
            self._pass(dataset, epochs, 1 if length is None else 2)
        elif length == -1:
            steps += epochs * steps_per_epoch
        elif epochs:
            # Without a known length, Keras needs one more epoch to find the end: if the length is a multiple of the
            # steps, that epoch is empty.
            per_pass = self._count() // steps_per_epoch + 1 if length is None else -(-length // steps_per_epoch)
            passes, within = divmod(epochs, max(per_pass, 1))
            self._pass(dataset, passes, 1)
            seen = within * steps_per_epoch
            steps += seen
        if steps == length:
            steps = 0  # Keras knows the length, so it requests no more batches of this pass
        return without_first(dataset, steps) if steps else dataset, seen

    def _pass(self, dataset: tf.data.Dataset, passes: int, iterators: int) -> None:
        if not self._draws:
            return
        for _ in range(passes):
            begun = iter(dataset)
            if self._draws_more:
                for _ in begun:
                    pass
            for _ in range(iterators - 1):
                iter(dataset)


def without_first(dataset: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """Skip ``count`` batches in the first iteration of the dataset, without changing its reported length.

    Each iterator of the result creates one iterator of the dataset.
    """
    left = tf.Variable(count, dtype=tf.int64, trainable=False)
    here = tf.Variable(0, dtype=tf.int64, trainable=False)  # the number of batches to skip in the current iteration

    @tf.autograph.experimental.do_not_convert
    def is_wanted(number: tf.Tensor, _: Any) -> tf.Tensor:
        begins = tf.equal(number, 0)
        later = left.read_value()
        now = tf.where(begins, later, here.read_value())
        with tf.control_dependencies([now]):
            done = [here.assign(now), left.assign(tf.where(begins, tf.zeros_like(later), later))]
        with tf.control_dependencies(done):
            return tf.identity(number >= now)

    length = dataset.cardinality()
    rest = dataset.enumerate().filter(is_wanted).map(tf.autograph.experimental.do_not_convert(lambda _, batch: batch))
    if length == tf.data.INFINITE_CARDINALITY:
        return rest.repeat()
    return rest if length == tf.data.UNKNOWN_CARDINALITY else rest.apply(_of_length(length))


def _of_length(length: Any) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    function: Callable[[tf.data.Dataset], tf.data.Dataset] = tf.data.experimental.assert_cardinality(length)
    return function
