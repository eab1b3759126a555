"""Contains a source for partitions that the cluster's Dask scheduler computes. Every task receives its rows from its
host.
"""

from __future__ import annotations

import itertools
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .....errors import ClusterLost, InvalidInput
from .....schema import feed_wire
from .....schema.partitions import LENGTH, Collection, Described, PassRequest, Rows
from .....schema.payload import packed, unpack
from . import failures
from .base import BatchSource, Opened, Reading
from .pass_place import PassPlace, pass_place

BATCH_SIZE = 32
"""The default batch size, the same as in Keras."""
_AHEAD = 2
"""The number of messages from the host that are read ahead."""


@dataclass
class Partitions(BatchSource):
    """A source for a Dask collection, or for several collections with equal partitions. Shuffling changes the order of
    the partitions, and the order of rows within a buffer.
    """

    collection: Collection

    what: ClassVar[str] = "a Dask collection"
    has_own_batches: ClassVar[bool] = False
    runs_own_code: ClassVar[bool] = False

    @property
    def examples(self) -> int | None:
        lengths = self.collection.lengths
        return None if lengths is None else sum(lengths)

    def open(self, ctx: Any, reading: Reading) -> Opened:
        """See ``BatchSource``. Waits until a partition with examples has been computed."""
        import tensorflow as tf

        batch_size = reading.batch_size or BATCH_SIZE
        share = reading.share

        begins = PassPlace(reading.first_epoch, 0, 0, 0)

        def request(number: int, described: Described | None, *, whole: bool = False) -> PassRequest:
            rank, size = (0, 1) if whole else (share.rank, share.size)
            first = 0 if number else begins.first
            number += begins.passes
            return PassRequest(
                ctx.run_id,
                reading.field,
                self.collection,
                number,
                batch_size,
                rank,
                size,
                reading.seed,
                described,
                first,
            )

        described = _ask(ctx.feed_socket, request(0, None))
        passes = itertools.count()

        def chunks() -> Iterator[Any]:
            try:
                yield from _chunks(ctx.feed_socket, request(next(passes), described))
            except InvalidInput as error:
                raise failures.noted(error) from error.__cause__

        def first_batches(count: int) -> list[Any]:
            found: list[Any] = []
            for leaves, counts in _chunks(ctx.feed_socket, request(0, described, whole=True)):
                ends = np.cumsum(counts)
                found += [
                    _packed(described, [leaf[end - n : end] for leaf in leaves])
                    for n, end in zip(counts, ends, strict=True)
                ]
                if len(found) >= count:
                    break
            return [tf.nest.map_structure(tf.convert_to_tensor, batch) for batch in found[:count]]

        examples = self.examples
        length = None if examples is None else -(-examples // batch_size)
        dataset = _as_batches(chunks, described, length)
        smallest = None if examples is None else (examples % batch_size or batch_size)

        def standing(epochs: int, steps: int, steps_per_epoch: int | None) -> tuple[Any, int]:
            nonlocal begins
            assert length is not None
            place = pass_place(length, epochs, steps, steps_per_epoch)
            begins = place._replace(passes=reading.began + place.passes)
            return dataset, place.seen

        # Recomputed partitions may draw different random values, so the rest of a pass could differ from that of the
        # interrupted pass.
        is_kept = length is not None and self.collection.graph is None
        return Opened(dataset, length, smallest, first_batches, standing if is_kept else None)


def _as_batches(chunks: Any, described: Described, length: int | None) -> Any:
    """Return a dataset of the batches in ``chunks()``. The chunks are split into batches without running Python
    code.
    """
    import tensorflow as tf

    leaves = tuple(tf.TensorSpec((None, *shape), _type_of(name)) for name, shape in described.leaves)
    dataset = tf.data.Dataset.from_generator(chunks, output_signature=(leaves, tf.TensorSpec((None,), tf.int64)))

    @tf.autograph.experimental.do_not_convert
    def batches_of(rows: Any, counts: Any) -> Any:
        ends = tf.cumsum(counts)

        @tf.autograph.experimental.do_not_convert
        def batch(begin: Any, end: Any) -> Any:
            return _packed(described, [leaf[begin:end] for leaf in rows])

        return tf.data.Dataset.from_tensor_slices((ends - counts, ends)).map(batch)

    dataset = dataset.flat_map(batches_of).prefetch(2)
    return dataset if length is None else dataset.apply(tf.data.experimental.assert_cardinality(length))


def _packed(described: Described, leaves: Any) -> Any:
    """Return the arrays of examples in the structure that Keras expects."""

    def placed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: placed(item) for key, item in value.items()}
        if isinstance(value, tuple):
            return tuple(placed(item) for item in value)
        return leaves[value]

    return placed(described.structure)


def _chunks(path: str, request: PassRequest) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the task's rows of one or more whole batches at a time, together with the number of rows in each of these
    batches.
    """
    rest: Rows | None = None
    with _Reader(path, request) as reader:
        while (rows := reader.next()) is not None:
            rows = rows if rest is None else _joined(rest, rows)
            rest = None
            if not rows.is_closed:
                whole = int(rows.counts[:-1].sum())
                rest = Rows([leaf[whole:] for leaf in rows.leaves], rows.counts[-1:], False)
                rows = Rows([leaf[:whole] for leaf in rows.leaves], rows.counts[:-1], True)
            if len(rows.counts):
                yield tuple(rows.leaves), rows.counts


def _joined(rest: Rows, rows: Rows) -> Rows:
    """Join the partial batch ``rest`` with ``rows``, which start with the remaining rows of that batch."""
    leaves = [np.concatenate(pair) for pair in zip(rest.leaves, rows.leaves, strict=True)]
    counts = rows.counts.copy()
    counts[0] += rest.counts[0]
    return Rows(leaves, counts, rows.is_closed)


class _Reader:
    """Reads the messages of one pass ahead of their use, in a thread, so that no TensorFlow thread blocks on the
    connection.
    """

    def __init__(self, path: str, request: PassRequest) -> None:
        self._read: queue.Queue[Any] = queue.Queue(_AHEAD)
        self._has_left = False
        self._connection = _connected(path, request)
        self._thread = threading.Thread(target=self._read_all, name="dtf-partitions", daemon=True)
        self._thread.start()

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._has_left = True
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        with suppress(queue.Empty):
            while True:
                self._read.get_nowait()
        self._connection.close()

    def next(self) -> Rows | None:
        """Return the next rows, or None at the end of the pass. Raises any error that the host reports."""
        found = self._read.get()
        if isinstance(found, BaseException):
            raise found
        return None if found is None else found

    def _read_all(self) -> None:
        found: Any = True
        while isinstance(found, Rows) or found is True:
            try:
                found = _received(self._connection)
            except OSError as error:
                found = ClusterLost(f"The host of this task no longer sends it data: {error}")
            except BaseException as error:  # such as MemoryError: the thread that waits for the rows must raise it
                found = error
            if self._has_left:
                return
            self._read.put(found)


def _ask(path: str, request: PassRequest) -> Described:
    with _connected(path, request) as connection:
        found = _received(connection)
    if isinstance(found, Exception):
        raise found
    assert isinstance(found, Described)
    return found


def _connected(path: str, request: PassRequest) -> socket.socket:
    from pathlib import Path

    connection = socket.socket(socket.AF_UNIX)
    try:
        with feed_wire.address(Path(path)) as address:
            connection.connect(address)
        body = bytes(packed(request))
        connection.sendall(LENGTH.pack(len(body)) + body)
    except OSError as error:
        connection.close()
        raise ClusterLost(f"The host of this task does not send it data: {error}") from None
    return connection


def _received(connection: socket.socket) -> Any:
    length = bytearray(LENGTH.size)
    if not feed_wire.read_exactly(connection, memoryview(length)):
        raise ConnectionError("the connection was closed")
    body = np.empty(LENGTH.unpack(length)[0], np.uint8).data
    if len(body) and not feed_wire.read_exactly(connection, body):
        raise ConnectionError("the connection was closed")
    return unpack(body)


def _type_of(name: str) -> Any:
    import tensorflow as tf

    return tf.string if name == "object" else tf.as_dtype(name)
