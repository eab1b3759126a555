"""Batches that have been read, all of them, where the data could be read only there: a generator's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..fit.sources.base import BatchSource, Opened, Reading


@dataclass
class HeldBatches(BatchSource):
    """Batches as Keras packs them, equal in structure; their leaves are arrays, with None for what is left out."""

    held: list[Any]

    what: ClassVar[str] = "the generator"
    runs_own_code: ClassVar[bool] = False

    @property
    def batches(self) -> int | None:
        return len(self.held)

    def open(self, ctx: Any, reading: Reading) -> Opened:
        """See ``BatchSource``. Every batch is whole: the share has to be all of it."""
        import tensorflow as tf

        assert reading.share.size == 1
        leaves = [tf.nest.flatten(batch) for batch in self.held]
        signature = tf.nest.pack_sequence_as(self.held[0], [_spec(list(same)) for same in zip(*leaves, strict=True)])

        def read() -> Iterator[Any]:
            yield from self.held

        dataset = tf.data.Dataset.from_generator(read, output_signature=signature)
        length = len(self.held)
        return Opened(dataset.apply(tf.data.experimental.assert_cardinality(length)), length)


def _spec(arrays: list[Any]) -> Any:
    """What fits all of the arrays, the first dimension left open."""
    import tensorflow as tf

    sizes = zip(*(array.shape[1:] for array in arrays), strict=True)
    inner = [same[0] if len(set(same)) == 1 else None for same in sizes]
    dtype = tf.string if arrays[0].dtype == object else tf.as_dtype(np.dtype(arrays[0].dtype))
    return tf.TensorSpec([None, *inner], dtype)
