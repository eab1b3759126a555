"""A task's inlet: a Unix socket through which processes on its machine feed its bounded queues and fetch results.

In the task::

    inlet = Inlet(inlet_of(ctx))            # starts listening; end it using ``with`` or ``close()``
    item = inlet.get("input")               # waits; EOFError at the end of the feed, or the sender's error if it failed
    inlet.give("output", result)            # add a result to be fetched
    inlet.end_results("output")             # no more results: remaining ones can still be fetched
    inlet.refuse("input")                   # stop reading; from now on, ``put`` returns False

In a Dask worker, or in any process of the same user and machine (``backend/machine/feed_outlet.py``)::

    with Outlet(path) as outlet:
        outlet.put("input", (x, y))         # waits while the queue is full; False if the task stopped reading
        outlet.end("input")                 # ends the feed, after everything put before
        results = outlet.take("output", 3)  # waits for three results; fewer if there are no more

Queues are created when first used. Several outlets may feed one queue. Its items are in the order in which they were
received. If an outlet's process dies, or an exception leaves the outlet's ``with`` block, the queues that it has fed
fail. If the task dies, all outlets raise ConnectionError.
"""

from __future__ import annotations

import logging
import os
import queue as queues
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ....schema import feed_wire as wire
from ....schema import private_files
from ....schema.payload import Packed, packed, unpack

logger = logging.getLogger(__name__)

ACCEPT_AGAIN_S = 1.0
"""The delay, in seconds, before trying again after a connection could not be accepted."""

ITEMS = 8
"""The maximum number of items waiting in a queue."""
BYTES = 256 << 20
"""The maximum total size, in bytes, of the items waiting in a queue. A larger item is accepted only if the queue is
empty.
"""
_CHUNK = 1 << 20
_LOOK_S = 0.5
"""The interval, in seconds, between checks whether a connection from which no data is expected has been closed. Only
polling detects this.
"""


def inlet_of(ctx: Any) -> Path:
    """Return the path of a task's inlet. Other processes derive the path from the run's id and the task's name."""
    return wire.inlet_path(ctx.shared_dir, ctx.task)


@dataclass
class _Queue:
    """Incoming items. ``failure`` is a packed exception to raise after the last item."""

    items: deque[memoryview] = field(default_factory=deque)
    nbytes: int = 0
    """The total size of the items, including those that are being received."""
    receiving: int = 0
    """The number of items that are being received."""
    has_ended: bool = False
    failure: bytes | memoryview | None = None
    is_refused: bool = False

    @property
    def takes(self) -> bool:
        return not (self.has_ended or self.is_refused or self.failure is not None)


@dataclass
class _Results:
    """Outgoing results. Their number and size are not limited."""

    items: deque[Any] = field(default_factory=deque)
    has_ended: bool = False


class Inlet:
    """Listens at ``path`` until closed. Each queue holds at most ``items`` items and ``nbytes`` bytes.

    Thread-safe. Raises OSError if it cannot listen.
    """

    def __init__(self, path: Path, *, items: int = ITEMS, nbytes: int = BYTES) -> None:
        self.path = path
        self._most_items = items
        self._most_bytes = nbytes
        self._queues: dict[str, _Queue] = {}
        self._results: dict[str, _Results] = {}
        self._connections: set[socket.socket] = set()
        self._changed = threading.Condition()
        self._is_closed = False
        private_files.make_dir(path.parent)
        path.unlink(missing_ok=True)  # the socket may be left over from a dead process of this task
        self._listener = socket.socket(socket.AF_UNIX)
        os.fchmod(self._listener.fileno(), 0o600)  # on Linux the bound file gets the socket's mode, less the umask
        with wire.address(path) as address:
            self._listener.bind(address)
        self._listener.listen(64)
        threading.Thread(target=self._accept, name="dtf-inlet", daemon=True).start()

    def __enter__(self) -> Inlet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening. From then on, outlets, ``get`` and ``give`` raise ConnectionError."""
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            connections = list(self._connections)
            self._changed.notify_all()
        self.path.unlink(missing_ok=True)
        for each in (self._listener, *connections):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # closing alone would not wake the waiting thread
        self._listener.close()

    # -- the task's side ----------------------------------------------------------------------------------------

    def get(self, queue: str, timeout: float | None = None) -> Any:
        """Wait for the next item and return it. Arrays in the item are writable and not shared.

        Raises:
            EOFError: At the end of the feed.
            ConnectionError: If a sender has died, or the inlet is closed.
            queue.Empty: After ``timeout`` seconds.
            Exception: The error with which a sender ended the queue.
        """
        with self._changed:
            found = self._queue(queue)
            if not self._wait(lambda: bool(found.items) or not found.takes, timeout):
                raise queues.Empty
            if not found.items:
                if found.failure is not None:
                    raise unpack(found.failure)
                raise EOFError(f"The feed {queue!r} has ended")
            body = found.items.popleft()
            found.nbytes -= len(body)
            self._changed.notify_all()
        return unpack(body)

    def waiting(self, queue: str) -> int:
        """Return the number of items waiting in a queue."""
        with self._changed:
            return len(self._queue(queue).items)

    def refuse(self, queue: str) -> None:
        """Stop reading a queue: discard its items, and notify its senders."""
        with self._changed:
            found = self._queue(queue)
            found.is_refused = True
            found.nbytes -= sum(map(len, found.items))
            found.items.clear()
            self._changed.notify_all()

    def forget(self, queue: str) -> None:
        """Reset a queue, whose senders must have ended, as if it had never been used."""
        with self._changed:
            self._queues.pop(queue, None)

    def give(self, queue: str, result: Any) -> None:
        """Add a result to be fetched."""
        with self._changed:
            self._check_open()
            self._results_of(queue).items.append(result)
            self._changed.notify_all()

    def end_results(self, queue: str) -> None:
        """Declare that there will be no more results."""
        with self._changed:
            self._results_of(queue).has_ended = True
            self._changed.notify_all()

    # -- inside -------------------------------------------------------------------------------------------------

    def _queue(self, name: str) -> _Queue:
        return self._queues.setdefault(name, _Queue())

    def _results_of(self, name: str) -> _Results:
        return self._results.setdefault(name, _Results())

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConnectionError("The inlet of this task is closed")

    def _wait(self, until: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait for a condition. The caller must hold the lock. Returns False on timeout. Raises ConnectionError if
        closed.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not until():
            self._check_open()
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return False
            self._changed.wait(left)
        return True

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                with self._changed:
                    if self._is_closed:
                        return
                    # For example, there are no file descriptors left: try again later.
                    logger.exception("A connection to this task's inlet could not be accepted")
                    self._changed.wait_for(lambda: self._is_closed, ACCEPT_AGAIN_S)
                continue
            with self._changed:
                if self._is_closed:
                    connection.close()
                    return
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), name="dtf-inlet-reader", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Serve one outlet until it disconnects."""
        fed: set[str] = set()
        try:
            while (message := wire.read_header(connection)) is not None:
                kind, name, length = message
                if kind == wire.BYE:
                    fed.clear()
                    return
                if kind == wire.PUT:
                    fed.add(name)
                    self._take_in(connection, name, length)
                    continue
                body = _body(connection, length)
                if kind == wire.TAKE:
                    self._hand_out(connection, name, wire.COUNT.unpack(body)[0])
                else:
                    self._end(name, body if kind == wire.FAIL else None)
                    fed.discard(name)
                    connection.sendall(wire.header(wire.TAKEN, "", 0))
        except OSError:  # the outlet is gone, or this inlet is closed
            pass
        finally:
            with self._changed:
                self._connections.discard(connection)
            connection.close()
            for name in fed:
                lost = ConnectionError(f"A process that fed {name!r} disconnected before the end of its feed")
                self._end(name, bytes(packed(lost)))

    def _take_in(self, connection: socket.socket, name: str, length: int) -> None:
        """Wait until the queue can hold an item of ``length`` bytes, then receive the item."""
        with self._changed:
            found = self._queue(name)
            self._wait(lambda: not found.takes or self._has_room(found, length))
            found.receiving += 1  # other senders must not use the same capacity
            found.nbytes += length
        is_wanted = False
        try:
            body = _body(connection, length)
            if _has_gone(connection):  # the sender has given up, assuming that this item was not received
                raise ConnectionError
            is_wanted = True
        finally:
            with self._changed:
                found.receiving -= 1
                is_wanted = is_wanted and found.takes
                if is_wanted:
                    found.items.append(body)
                else:
                    found.nbytes -= length
                self._changed.notify_all()
        connection.sendall(wire.header(wire.TAKEN if is_wanted else wire.UNWANTED, "", 0))

    def _has_room(self, found: _Queue, length: int) -> bool:
        waiting = len(found.items) + found.receiving
        return not waiting or (found.nbytes + length <= self._most_bytes and waiting < self._most_items)

    def _end(self, name: str, failure: bytes | memoryview | None) -> None:
        with self._changed:
            found = self._queue(name)
            if found.takes:
                found.has_ended = True
                found.failure = failure
            self._changed.notify_all()

    def _hand_out(self, connection: socket.socket, name: str, count: int) -> None:
        with self._changed:
            results = self._results_of(name)
            while not self._wait(lambda: results.has_ended or len(results.items) >= count, _LOOK_S):
                if _has_gone(connection):
                    return
            if _has_gone(connection):  # since the last check; results taken out now would be lost
                return
            taken = [results.items.popleft() for _ in range(min(count, len(results.items)))]
        body = _packed(taken)
        connection.sendall(wire.header(wire.RESULTS, name, body.size))
        for chunk in body.chunks(_CHUNK):
            connection.sendall(chunk)


def _body(connection: socket.socket, length: int) -> memoryview:
    """Read ``length`` bytes into new memory."""
    body = np.empty(length, np.uint8).data
    if length and not wire.read_exactly(connection, body):
        raise ConnectionError("The connection was closed in the middle of a message")
    return body


def _has_gone(connection: socket.socket) -> bool:
    """Return whether the other side has closed the connection while waiting for a reply."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


def _packed(results: list[Any]) -> Packed:
    """Pack the results, or an error if they cannot be pickled."""
    try:
        return packed(results)
    except Exception as error:
        return packed(TypeError(f"Results must be picklable, got {results!r:.200}: {error}"))
