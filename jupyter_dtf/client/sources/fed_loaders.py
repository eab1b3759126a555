"""A ``DataLoader`` that cannot supply batches by number. It is read here, pass by pass, while a run trains on it."""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Iterator
from typing import Any

from ...backend.task.fit.sources.fed_dataset import FedDataset
from ...backend.task.fit.sources.stream import Leaf, tuples
from ...errors import InvalidInput
from ..feed_passes import PassesFeed
from ..feed_window import Batch
from .streams import PEEKED, Reader, leaves_of, numbered, parts_of

_WHAT = "the DataLoader"
_UNKNOWN = -2


def fed_loader(loader: Any, field: str, why: str) -> FedDataset:
    """Return the source for a loader that is read in this process. ``why``: the reason for this, as a clause.

    The first two batches are read immediately, as in Keras. Raises InvalidInput for values that are not batches, and
    any error of the loader.
    """
    values = [tuples(value) for value in itertools.islice(loader, PEEKED)]
    if not values:
        raise InvalidInput("A DataLoader must have at least one batch, got one that yields none", field=field)
    structure = numbered(parts_of(values[0], field, _WHAT), [])
    reader = Reader(iter(()), structure, [], field, _WHAT)
    leaves = leaves_of([reader.batch(value) for value in values], field, _WHAT)
    return _Here(loader, structure, leaves, field, why).anew()


class _Here:
    """Creates a source for each run that reads a loader of this process."""

    def __init__(self, loader: Any, structure: Any, leaves: list[Leaf], field: str, why: str) -> None:
        self._loader = loader
        self._structure = structure
        self._leaves = leaves
        self._field = field
        self._why = why

    def anew(self) -> FedDataset:
        """Return a source for one run."""
        name, secret = secrets.token_hex(8), secrets.token_hex(32)
        passes = LoaderPasses(self._loader, self._read)
        feed = PassesFeed(name, secret, _WHAT, passes, trains=self._field == "x")
        return _OwnLoader(name, secret, self._structure, self._leaves, _WHAT, feed, _UNKNOWN, self._why, self)

    def _read(self, iterator: Iterator[Any]) -> Iterator[Batch]:
        return Reader(map(tuples, iterator), self._structure, self._leaves, self._field, _WHAT)


class _OwnLoader(FedDataset):
    """The source in the process that has the loader. It is sent as ``FedDataset``."""

    def __init__(self, *fields: Any) -> None:
        *own, self._here = fields
        super().__init__(*own)

    def __reduce__(self) -> Any:
        fields = (self.name, self.secret, self.structure, self.leaves, self.what, None, self.length, self.why)
        return FedDataset, fields

    def anew(self) -> FedDataset:
        return self._here.anew()  # type: ignore[no-any-return]


class LoaderPasses:
    """The passes over a loader, each with its own iterator. It is unknown whether two passes are equal."""

    length = _UNKNOWN
    draws = True

    def __init__(self, loader: Any, read: Any) -> None:
        self._loader = loader
        self._read = read
        self._made = 0
        self._lock = threading.Lock()

    def begin(self, number: int, *, in_parts: bool, count: int | None) -> Iterator[Batch]:
        """Start pass ``number``, from 0, after reading any passes that were skipped."""
        with self._lock:
            while self._made < number:
                for _ in self._loader:
                    pass
                self._made += 1
            self._made = max(self._made, number) + 1
            return self._read(iter(self._loader))  # type: ignore[no-any-return]
