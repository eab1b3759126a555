"""Where a dataset stands that shuffles anew with each pass, after passes that have been made before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from .....errors import InvalidInput
from .graph_view import SEEDS, GraphView


class Passes:
    """The passes over a dataset. Shuffles draw from a generator of their own, once an iterator is made of them: what
    Keras has made of the dataset until some step is made here again.
    """

    def __init__(self, view: GraphView, dataset: tf.data.Dataset, length: int | None, count: Callable[[], int]) -> None:
        """``count``: how many batches there are in a pass, counted in another dataset like this."""
        self._dataset = dataset
        self._count = count
        self._length = length
        drawing = [node for node in view.datasets() if node.op in SEEDS]
        self._draws = bool(drawing)
        repeats = [node for node in view.datasets() if "Repeat" in node.op]
        self._draws_more = len(drawing) > 1 or bool(drawing and repeats)

    def standing(self, epochs: int, steps: int, steps_per_epoch: int | None) -> tf.data.Dataset:
        """The dataset after so many epochs and steps of the next: its first pass is the rest of the one under way."""
        dataset, length = self._dataset, self._length
        is_unknown = length is None
        if is_unknown and epochs and (self._draws or steps_per_epoch is not None):
            length = self._count()
            dataset = dataset.apply(_of_length(length))
        if steps_per_epoch is None:
            # Keras makes two iterators in an epoch whose length it knows, one of them at the end.
            self._pass(dataset, 1 if is_unknown and epochs else 0, 1)
            self._pass(dataset, epochs - 1 if is_unknown and epochs else epochs, 2)
        elif length == -1:
            steps += epochs * steps_per_epoch
        else:
            assert length is not None or not epochs
            passes, within = divmod(epochs, -(-length // steps_per_epoch)) if length else (0, 0)
            if within:  # Keras counts the batches of a pass, and would count those that are left out as well
                raise InvalidInput(
                    "A training whose steps_per_epoch is not a pass over its dataset can go on only with a dataset "
                    f"that does not end, dataset.repeat(). Received: steps_per_epoch={steps_per_epoch}, and a dataset "
                    f"of {length} batches after {epochs} epochs",
                    field="steps_per_epoch",
                )
            self._pass(dataset, passes, 1)
        return without_first(dataset, steps) if steps else dataset

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
    """The dataset, of which the first iteration leaves out so many batches. It says that it is as long as before.

    Iterators are made of the dataset as they are made of this one.
    """
    left = tf.Variable(count, dtype=tf.int64, trainable=False)

    @tf.autograph.experimental.do_not_convert
    def is_wanted(number: tf.Tensor, _: Any) -> tf.Tensor:
        now = left.read_value()
        wanted = number >= now
        with tf.control_dependencies([now]):
            then = left.assign(tf.where(wanted, tf.zeros_like(now), now))
        with tf.control_dependencies([then]):
            return tf.identity(wanted)

    length = dataset.cardinality()
    rest = dataset.enumerate().filter(is_wanted).map(tf.autograph.experimental.do_not_convert(lambda _, batch: batch))
    if length == tf.data.INFINITE_CARDINALITY:
        return rest.repeat()
    return rest if length == tf.data.UNKNOWN_CARDINALITY else rest.apply(_of_length(length))


def _of_length(length: Any) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    function: Callable[[tf.data.Dataset], tf.data.Dataset] = tf.data.experimental.assert_cardinality(length)
    return function
