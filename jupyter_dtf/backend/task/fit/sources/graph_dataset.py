"""Contains a source for the caller's ``tf.data.Dataset``. Its graph is sent to the tasks, and each task computes its
shares of the batches.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .base import BatchSource, Opened, Reading
from .passed_graph import PassedGraph


class GraphDataset(PassedGraph, BatchSource):
    """A source for a dataset whose graph may call Python functions."""

    what: ClassVar[str] = "the tf.data.Dataset"

    @property
    def batches(self) -> int | None:
        return None if self.length < -1 else self.length

    def open(self, ctx: Any, reading: Reading) -> Opened:
        from .graph_opening import opened  # imports TensorFlow

        return opened(self, ctx, reading)


class PureGraphDataset(GraphDataset):
    """A source for a dataset that consists only of TensorFlow's own operations."""

    runs_own_code: ClassVar[bool] = False
