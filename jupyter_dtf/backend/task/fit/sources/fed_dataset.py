"""Contains a source for a ``tf.data.Dataset`` that only the caller's process can read. That process sends the batches
to the tasks, pass by pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import tensorflow as tf

from .....errors import InvalidInput
from .base import Opened, Reading
from .stream import Batches, StreamSource
from .stream_wire import Hello


@dataclass
class FedDataset(StreamSource):
    """A dataset that is read in the caller's process. ``length``: its cardinality in TensorFlow. ``why``: the reason
    why it is read there, as a clause.
    """

    length: int = tf.data.UNKNOWN_CARDINALITY
    why: str = ""

    @property
    def batches(self) -> int | None:
        return None if self.length < -1 else self.length

    def open(self, ctx: object, reading: Reading) -> Opened:
        """See ``BatchSource``. Raises InvalidInput if the pass in which training resumes cannot be determined."""
        passes, seen = 0, 0
        if reading.passed and self.length != tf.data.INFINITE_CARDINALITY:
            assert reading.steps is not None
            if self.length < 0:
                raise InvalidInput(
                    "`steps_per_epoch` must be None to resume with a dataset that another process reads, unless the "
                    "dataset has a known length (tf.data.experimental.assert_cardinality) or is endless (repeat), got "
                    f"{reading.steps} and a dataset of an unknown number of batches",
                    field="steps_per_epoch",
                )
            passes, within = divmod(reading.passed // reading.steps, max(-(-self.length // reading.steps), 1))
            seen = within * reading.steps
            reading = replace(reading, passed=seen)
        if self.length > 0 and reading.passed + reading.within == self.length and not reading.takes:
            # Keras knows the length, so it requests batches of the next pass and no more batches of this pass.
            passes, reading = passes + 1, replace(reading, passed=0, within=0)
        opened = self.opened(_Passes(self, ctx, reading, passes), reading)
        opened.length, opened.seen = self.batches, seen
        if opened.length is not None and opened.length >= 0:
            opened.dataset = opened.dataset.apply(tf.data.experimental.assert_cardinality(opened.length))
        opened.division = f"It is read in the process that passed it, which sends each task its shares: {self.why}"
        return opened


class _Passes(Batches):
    """The batches of a dataset. Each call iterates over one pass; the first call may continue a pass."""

    def __init__(self, source: FedDataset, ctx: object, reading: Reading, passes: int) -> None:
        """Initialize the batches. ``passes``: the number of finished passes in addition to those in ``reading``."""
        super().__init__(source, ctx, reading)
        self._passes = passes

    def _hello(self) -> Hello:
        reading = self._reading
        trains, is_first = reading.field == "x", self._calls == 1
        in_parts = trains and reading.steps is not None
        return Hello(
            secret=self._source.secret,
            rank=reading.share.rank,
            size=reading.share.size,
            passes=self._passes + (0 if in_parts else reading.passes - reading.passes_before),
            within=reading.within if is_first else 0,
            passed=reading.passed if is_first else 0,
            again=self._calls - 1,
            only=0 if trains else reading.steps or 0,
            in_parts=in_parts,
        )
