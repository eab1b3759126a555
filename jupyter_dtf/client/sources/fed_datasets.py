"""A ``tf.data.Dataset`` that only this process can read. It is read here while a run trains on it."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from typing import Any

from ...backend.task.fit.sources.fed_dataset import FedDataset
from ...backend.task.fit.sources.stream import Leaf
from ...errors import InvalidInput
from ..feed_passes import PassesFeed
from ..feed_window import Batch
from .streams import Reader, numbered, parts_of

_WHAT = "the tf.data.Dataset"


def fed_dataset(dataset: Any, field: str, why: str, view: Any) -> FedDataset:
    """Return the source for a dataset that is read in this process. Nothing is read yet.

    ``why``: the reason why no other process can read it, as a clause. ``view``: a view of the dataset's graph, if there
    is one. Raises InvalidInput for elements that are not batches or not dense.
    """
    import tensorflow as tf

    spec = tf.nest.map_structure(
        lambda leaf: None if isinstance(leaf, tf.NoneTensorSpec) else leaf, dataset.element_spec
    )
    found: list[Any] = []
    structure = numbered(parts_of(spec, field, _WHAT), found)
    for leaf in found:
        if not isinstance(leaf, tf.TensorSpec) or leaf.shape.rank is None:
            raise InvalidInput(
                "A dataset that only this process can read must consist of dense tensors of known rank, got "
                f"{leaf}. No other process can read this dataset, because {why}. Pass an output_signature to "
                "from_generator, set the shapes of the results of Python functions (tf.ensure_shape), and convert "
                "other tensors to dense ones before batching",
                field=field,
            )
    leaves = [Leaf((None, *leaf.shape[1:]), leaf.dtype.name, leaf.dtype == tf.string) for leaf in found]
    return _Here(dataset, structure, leaves, field, why, draws=view is None or _draws(view)).anew()


class _Here:
    """Creates a source for each run that reads a dataset of this process."""

    def __init__(self, dataset: Any, structure: Any, leaves: list[Leaf], field: str, why: str, *, draws: bool) -> None:
        self._dataset = dataset
        self._structure = structure
        self._leaves = leaves
        self._field = field
        self._why = why
        self._draws = draws

    def anew(self) -> FedDataset:
        """Return a source for one run."""
        name, secret = secrets.token_hex(8), secrets.token_hex(32)
        length = int(self._dataset.cardinality())
        passes = DatasetPasses(self._dataset, self.read, length, draws=self._draws)
        feed = PassesFeed(name, secret, _WHAT, passes, trains=self._field == "x")
        return _OwnDataset(name, secret, self._structure, self._leaves, _WHAT, feed, length, self._why, self)

    def read(self, iterator: Iterator[Any]) -> Iterator[Batch]:
        """Return the batches of an iterator over the dataset, in the form in which they are sent."""
        return Reader(iterator, self._structure, self._leaves, self._field, _WHAT)


class _OwnDataset(FedDataset):
    """The source in the process that has the dataset. It is sent as ``FedDataset``."""

    def __init__(self, *fields: Any) -> None:
        *own, self._here = fields
        super().__init__(*own)

    def __reduce__(self) -> Any:
        fields = (self.name, self.secret, self.structure, self.leaves, self.what, None, self.length, self.why)
        return FedDataset, fields

    def anew(self) -> FedDataset:
        found: FedDataset = self._here.anew()
        return found


class DatasetPasses:
    """The passes over a dataset, each with the iterator that Keras would use.

    The order of a shuffled pass is drawn when its iterator is created, and Keras creates two iterators for each pass of
    known length.
    """

    def __init__(self, dataset: Any, read: Any, length: int, *, draws: bool) -> None:
        """``draws``: whether passes may differ even if the dataset's Python functions are deterministic."""
        self.length = max(length, -2)
        self.draws = draws
        self._dataset = dataset
        self._read = read
        self._made = 0
        self._lock = threading.Lock()

    def begin(self, number: int, *, in_parts: bool, count: int | None) -> Iterator[Batch]:
        """Start pass ``number``, from 0, of which ``count`` batches will be read (None: all).

        ``in_parts``: whether the pass spans several epochs. Skipped passes are read first if the order of this pass
        depends on them.
        """
        import tensorflow as tf

        is_whole = self.length >= 0 and (count is None or count >= self.length)
        each = 2 if is_whole and not in_parts else 1
        with self._lock, tf.device("/device:CPU:0"):
            while self._made < number * each:
                iterator = iter(self._dataset)
                if self.draws and self._made % each == 0:
                    for _ in iterator:
                        pass
                self._made += 1
            self._made += 1
            return self._read(iter(self._dataset))  # type: ignore[no-any-return]


def _draws(view: Any) -> bool:
    """Return whether a dataset has random operations, so that passes may differ."""
    from ...backend.task.fit.sources.graph_view import SEEDS, changes_state, is_random

    nodes = (node for node in view.everything() if node is not view.end)
    return any(node.op in SEEDS or is_random(node) or changes_state(node) for node in nodes)
