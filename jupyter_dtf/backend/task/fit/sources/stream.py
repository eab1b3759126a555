"""Contains the source for a stream: batches that the client reads once and divides among the tasks
(``client/feeding.py``).
"""

from __future__ import annotations

import contextlib
import socket
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec
import numpy as np

from .....errors import InvalidInput, Unavailable
from . import failures
from .base import BatchSource, Opened, Reading, Share
from .stream_wire import Hello, Message, address_of, is_own, receive, say

_PREFETCHED = 2


@dataclass(frozen=True)
class Leaf:
    """The description of one array of a batch: its shape, with None where batches differ, and its dtype's name.
    ``words``: whether the array holds strings.
    """

    shape: tuple[int | None, ...]
    dtype: str
    words: bool = False

    @property
    def spec(self) -> Any:
        """The array's ``tf.TensorSpec``."""
        import tensorflow as tf

        return tf.TensorSpec(self.shape, tf.string if self.words else tf.as_dtype(self.dtype))

    def array(self, raw: Any, shape: tuple[int, ...]) -> Any:
        """Convert received bytes to an array of shape ``shape``."""
        if not self.words:
            return raw.view(np.dtype(self.dtype)).reshape(shape)
        array = np.empty(int(np.prod(shape)), object)
        array[:] = msgspec.msgpack.decode(memoryview(raw), type=list[bytes])
        return array.reshape(shape)


@dataclass
class StreamSource(BatchSource):
    """A source for a stream. ``structure``: the structure of a batch, in which each leaf is an index into ``leaves`` or
    None.
    """

    name: str
    secret: str
    structure: Any
    leaves: list[Leaf]
    what: str = "a generator"  # type: ignore[misc]  # one class for all data that the client reads
    feed: Any = field(default=None, compare=False, repr=False)
    """The object that reads the stream; set only in the client."""

    runs_own_code: ClassVar[bool] = False
    continues: ClassVar[bool] = True

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "feed": None}

    def anew(self) -> StreamSource:
        """Return the source for another run with the same data, or this source if the data can be read only once."""
        return self

    def open(self, ctx: Any, reading: Reading) -> Opened:
        """See ``BatchSource``. Nothing is requested from the client before the first iteration."""
        return self.opened(Batches(self, ctx, reading), reading)

    def opened(self, batches: Batches, reading: Reading) -> Opened:
        """Return a dataset, of unknown length, of the batches that are requested from the client."""
        import tensorflow as tf

        dataset = tf.data.Dataset.from_generator(
            batches, output_signature=_packed(self.structure, self._specs(), tf.NoneTensorSpec())
        )
        if reading.field == "x":
            dataset = dataset.prefetch(_PREFETCHED)  # other fields: unused batches must not be read
        return Opened(dataset, None, first_batches=batches.first)

    def leave(self, ctx: Any, share: Share) -> None:
        """See ``BatchSource``. Also notifies the client that this task needs no more batches."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.connect(address_of(self.name))
            if is_own(peer):
                say(peer, Hello(secret=self.secret, rank=share.rank, size=share.size, ended=True))

    def _specs(self) -> list[Any]:
        return [leaf.spec for leaf in self.leaves]

    def values(self, message: Message, raws: list[Any]) -> Any:
        """Convert a received message and the bytes of its leaves to a batch."""
        arrays = [
            leaf.array(raw, shape) for leaf, raw, (shape, _) in zip(self.leaves, raws, message.leaves, strict=True)
        ]
        return _packed(self.structure, arrays)

    def nothing(self) -> Any:
        """Return a batch without examples."""
        arrays = [
            np.zeros((0, *(n or 1 for n in leaf.shape[1:])), object if leaf.words else leaf.dtype)
            for leaf in self.leaves
        ]
        return _packed(self.structure, arrays)


class Batches:
    """This task's shares of a stream's batches. Each call iterates over the rest of the current pass, or over the next
    pass.
    """

    _open: ClassVar[dict[str, Any]] = {}
    """Weak references to the current readers in this process, keyed by the names of their streams."""

    def __init__(self, source: StreamSource, ctx: Any, reading: Reading) -> None:
        self._source = source
        self._ctx = ctx
        self._reading = reading
        self._again = 0
        self._taken = 0
        self._calls = 0
        self._peer: socket.socket | None = None
        self._is_closed = False
        before = Batches._open.get(source.name)
        if before is not None and (old := before()) is not None:
            old.close()
        Batches._open[source.name] = weakref.ref(self)

    def close(self) -> None:
        """Stop reading, and wake up any thread that waits for a batch."""
        self._is_closed = True
        if self._peer is not None:
            with contextlib.suppress(OSError):
                self._peer.shutdown(socket.SHUT_RDWR)

    def __call__(self) -> Iterator[Any]:
        reading = self._reading
        self._calls += 1
        call = self._calls
        if self._calls == 1 and reading.takes:
            for _ in range(reading.within):
                yield self._source.nothing()
        peer = self._peer = self._connect(self._hello())
        with peer:
            while (batch := self._next(peer, call)) is not None:
                self._taken += 1
                yield batch
        self._again += 1
        self._taken = 0

    def _hello(self) -> Hello:
        """Return the request for this iteration."""
        reading = self._reading
        if self._again and reading.field == "feed":  # the user's program iterates; in fit, Keras's rules apply
            raise failures.noted(
                InvalidInput(
                    f"`ctx.feed()` of {self._source.what} must be read only once, because an iteration continues "
                    "where the previous one stopped, and nothing follows its end, but it was iterated over again. Pass "
                    "a keras.utils.PyDataset or a tf.data.Dataset, which can be read again"
                )
            )
        goes_on = reading.field in ("x", "feed")
        only = 0 if goes_on else reading.steps or 0
        return Hello(
            secret=self._source.secret,
            rank=reading.share.rank,
            size=reading.share.size,
            passes=reading.passes,
            within=0 if self._again else reading.within + self._taken * goes_on,
            passed=reading.passed,
            again=self._again,
            only=only,
            in_parts=goes_on and reading.steps is not None,
        )

    def first(self, count: int) -> list[Any]:
        """Return the first ``count`` global batches. Raises RuntimeError if they are no longer kept, and Unavailable if
        the client cannot be reached.
        """
        import tensorflow as tf

        found: list[Any] = []
        try:
            with self._connect(Hello(secret=self._source.secret, rank=0, size=1, peek=count)) as peer:
                while (batch := self._next(peer, self._calls)) is not None:
                    found.append(tf.nest.map_structure(_tensor, batch))
        finally:
            failures.taken()  # the caller reports the error
        return found

    def _next(self, peer: socket.socket, call: int) -> Any:
        """Wait for this task's share of the next batch, and return it. Return None at the end of the pass."""
        try:
            message, raws = receive(peer)
            if message.note:
                self._ctx.note("info", "Data in a different order", message.note)
        except EOFError:
            if self._is_closed or call != self._calls:  # TensorFlow continues to read for a while after a stop
                raise
            raise failures.noted(
                Unavailable(
                    f"The client that fed the run has exited, and {self._source.what} that it read is no longer "
                    "available: the process that called cluster.fit must keep running until the run has ended"
                )
            ) from None
        if message.error:
            error = InvalidInput(message.error) if message.is_input else RuntimeError(message.error)
            raise failures.noted(error) from _RaisedThere(message.detail) if message.detail else None
        if message.stopped:  # the stop request may arrive later; the data has not ended
            self._ctx.stop_requested.set()
        return self._source.values(message, raws) if message.batch >= 0 else None

    def _connect(self, hello: Hello) -> socket.socket:
        """Connect to the client. Raises Unavailable if the client is not on this machine, or has exited."""
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            peer.connect(address_of(self._source.name))
            if is_own(peer):
                say(peer, hello)
                return peer
        except OSError:
            pass
        peer.close()
        what = self._source.what
        raise failures.noted(
            Unavailable(
                f"{self._ctx.task} cannot reach the process that called cluster.fit, which reads {what}: it has "
                f"exited, or is on another machine, and {what} can be sent only to tasks on the same machine. Pass a "
                "keras.utils.PyDataset or a function data_fn(ctx), which can be sent to any machine"
            )
        )


class _RaisedThere(Exception):
    """An exception that was raised in the client. Its message is the traceback."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _packed(structure: Any, values: list[Any], nothing: Any = None) -> Any:
    """Return the structure, with each index replaced by the value at that index, and None replaced by ``nothing``."""
    if isinstance(structure, dict):
        return {key: _packed(item, values, nothing) for key, item in structure.items()}
    if isinstance(structure, tuple):
        return tuple(_packed(item, values, nothing) for item in structure)
    return nothing if structure is None else values[structure]


def _tensor(leaf: Any) -> Any:
    import tensorflow as tf

    return None if leaf is None else tf.convert_to_tensor(leaf)


def tuples(batch: Any) -> Any:
    """Convert lists in a batch to tuples, because PyTorch's ``default_collate`` turns tuples into lists."""
    if isinstance(batch, dict):
        return {key: tuples(value) for key, value in batch.items()}
    return tuple(map(tuples, batch)) if type(batch) in (list, tuple) else batch
