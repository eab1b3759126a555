"""The batches of a generator. The client has read them all, because only the client can run the generator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..fit.sources.base import BatchSource, Opened, Reading


@dataclass
class HeldBatches(BatchSource):
    """Batches packed as in Keras, all with the same structure. Leaves are arrays, or None for omitted parts."""

    held: list[Any]

    what: ClassVar[str] = "the generator"
    runs_own_code: ClassVar[bool] = False

    @property
    def batches(self) -> int | None:
        return len(self.held)

    def open(self, ctx: Any, reading: Reading) -> Opened:
        """Open the batches; see ``BatchSource``. They are not divided among tasks: ``reading.share`` must be all of the
        data.
        """
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
    """Return a spec that all arrays match, with an unknown batch dimension."""
    import tensorflow as tf

    if arrays[0] is None:
        return tf.NoneTensorSpec()
    sizes = zip(*(array.shape[1:] for array in arrays), strict=True)
    inner = [same[0] if len(set(same)) == 1 else None for same in sizes]
    dtype = tf.string if arrays[0].dtype == object else tf.as_dtype(np.dtype(arrays[0].dtype))
    return tf.TensorSpec([None, *inner], dtype)
