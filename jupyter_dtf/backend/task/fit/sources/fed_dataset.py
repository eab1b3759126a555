"""A ``tf.data.Dataset`` that only its own process can read: read there, pass by pass, and handed to the tasks."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from .....errors import InvalidInput
from .base import Opened, Reading
from .stream import Batches, StreamSource
from .stream_wire import Hello


@dataclass
class FedDataset(StreamSource):
    """``length`` is the dataset's cardinality, as TensorFlow gives it; ``why`` it is read there, a clause."""

    length: int = tf.data.UNKNOWN_CARDINALITY
    why: str = ""

    @property
    def batches(self) -> int | None:
        return None if self.length < -1 else self.length

    def open(self, ctx: object, reading: Reading) -> Opened:
        """See ``BatchSource``. Raises InvalidInput where nobody knows in which pass a training goes on."""
        if reading.passed and self.length != tf.data.INFINITE_CARDINALITY:
            raise InvalidInput(
                "A training with steps_per_epoch goes on with a dataset that the client reads where that does not end, "
                f"dataset.repeat(). Received: steps_per_epoch={reading.steps}, and a dataset of "
                f"{'an unknown number of' if self.length < 0 else self.length} batches",
                field="steps_per_epoch",
            )
        opened = self.opened(_Passes(self, ctx, reading), reading)
        opened.length = self.batches
        if opened.length is not None and opened.length >= 0:
            opened.dataset = opened.dataset.apply(tf.data.experimental.assert_cardinality(opened.length))
        opened.division = f"It is read in the process that passed it, which sends each task its shares: {self.why}"
        return opened


class _Passes(Batches):
    """Each call is another pass; the first one may be the rest of one."""

    def _hello(self) -> Hello:
        reading = self._reading
        trains, is_first = reading.field == "x", self._calls == 1
        in_parts = trains and reading.steps is not None
        return Hello(
            secret=self._source.secret,
            rank=reading.share.rank,
            size=reading.share.size,
            passes=0 if in_parts else reading.passes - reading.passes_before,
            within=reading.within if is_first else 0,
            passed=reading.passed if is_first else 0,
            again=self._calls - 1,
            only=0 if trains else reading.steps or 0,
            in_parts=in_parts,
        )
