"""A task's inlet: a Unix socket by which processes of its machine feed it, within a bound, and fetch results.

In the task::

    inlet = Inlet(inlet_of(ctx))            # listens from here on; ``with`` or ``close()`` ends it
    item = inlet.get("input")               # waits; EOFError at the end of the feed, the pusher's error if it failed
    inlet.give("output", result)            # a result, for whoever takes it
    inlet.end_results("output")             # no more results: takers get what is left
    inlet.refuse("input")                   # nobody reads any more: ``put`` returns False from here on

In a Dask worker, or in any process of the same user and machine (``backend/machine/feed_outlet.py``)::

    with Outlet(path) as outlet:
        outlet.put("input", (x, y))         # waits while the queue is full; False where nobody reads any more
        outlet.end("input")                 # the end of the feed, after all that was put before
        results = outlet.take("output", 3)  # waits for three results; fewer where the task gives no more

Queues are made when they are first named. Many outlets may feed one queue: items come in the order in which they were
taken in. An outlet whose process dies, or that is left by an exception, fails the queues that it has fed; a task that
dies raises ConnectionError in all outlets.
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
from ....schema import private
from ....schema.payload import Packed, packed, unpack

logger = logging.getLogger(__name__)

ACCEPT_AGAIN_S = 1.0
"""After a connection that could not be taken."""

ITEMS = 8
"""Items that wait in a queue, at most."""
BYTES = 256 << 20
"""And their bytes; an item that is larger comes alone."""
_CHUNK = 1 << 20
_LOOK_S = 0.5
"""How often a connection is looked at on which nothing is to come: nothing else tells that it has ended."""


def inlet_of(ctx: Any) -> Path:
    """Where a task's inlet listens: others of its machine find it there by the run's id and the task's name."""
    return wire.inlet_path(ctx.shared_dir, ctx.task)


@dataclass
class _Queue:
    """Items on their way in. ``failure``: an exception, packed, which is raised after them."""

    items: deque[memoryview] = field(default_factory=deque)
    nbytes: int = 0
    has_ended: bool = False
    failure: bytes | memoryview | None = None
    is_refused: bool = False

    @property
    def takes(self) -> bool:
        return not (self.has_ended or self.is_refused or self.failure is not None)


@dataclass
class _Results:
    """Results on their way out: as many as the task gives."""

    items: deque[Any] = field(default_factory=deque)
    has_ended: bool = False


class Inlet:
    """Listens at ``path`` until it is closed. Each queue holds at most ``items`` items and ``nbytes`` bytes.

    Its methods may be called from any thread. Raises OSError if nothing can listen there.
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
        private.make_dir(path.parent)
        path.unlink(missing_ok=True)  # a process of this task that has died has left it
        self._listener = socket.socket(socket.AF_UNIX)
        os.fchmod(self._listener.fileno(), 0o600)  # Linux gives what is bound the mode of the socket, but for the umask
        with wire.address(path) as address:
            self._listener.bind(address)
        self._listener.listen(64)
        threading.Thread(target=self._accept, name="dtf-inlet", daemon=True).start()

    def __enter__(self) -> Inlet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hear nobody any more: outlets raise ConnectionError, and so do ``get`` and ``give`` here."""
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            connections = list(self._connections)
            self._changed.notify_all()
        self.path.unlink(missing_ok=True)
        for each in (self._listener, *connections):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # closing alone would not wake the thread that waits in it
        self._listener.close()

    # -- the task's side ----------------------------------------------------------------------------------------

    def get(self, queue: str, timeout: float | None = None) -> Any:
        """The next item. Arrays in it are its own, and writable.

        Raises EOFError at the end of the feed, the error with which its pusher failed, ConnectionError if a pusher has
        died, and ``queue.Empty`` after ``timeout`` seconds.
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
        """How many items of a queue wait to be read."""
        with self._changed:
            return len(self._queue(queue).items)

    def refuse(self, queue: str) -> None:
        """Nobody reads a queue any more: what is in it is dropped, and who pushes is told so."""
        with self._changed:
            found = self._queue(queue)
            found.is_refused = True
            found.items.clear()
            found.nbytes = 0
            self._changed.notify_all()

    def forget(self, queue: str) -> None:
        """As if a queue had never been named. Its pushers are to have ended."""
        with self._changed:
            self._queues.pop(queue, None)

    def give(self, queue: str, result: Any) -> None:
        """Add a result, which waits for whoever takes it."""
        with self._changed:
            self._check_open()
            self._results_of(queue).items.append(result)
            self._changed.notify_all()

    def end_results(self, queue: str) -> None:
        """There are no more results than those that were given."""
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
        """Wait, with the lock held, until something is so; False after the time. Raises ConnectionError if closed."""
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
                    # Out of descriptors, say: others are heard when there are some again.
                    logger.exception("A process that would feed this task could not be heard")
                    self._changed.wait_for(lambda: self._is_closed, ACCEPT_AGAIN_S)
                continue
            with self._changed:
                if self._is_closed:
                    connection.close()
                    return
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), name="dtf-inlet-reader", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Answer one outlet until it says goodbye, or has gone."""
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
        except OSError:  # it has gone, or this inlet is closed
            pass
        finally:
            with self._changed:
                self._connections.discard(connection)
            connection.close()
            for name in fed:
                lost = ConnectionError(f"A process that fed {name!r} has gone before the end of what it was to feed")
                self._end(name, bytes(packed(lost)))

    def _take_in(self, connection: socket.socket, name: str, length: int) -> None:
        """An item, which is not read before there is room for it."""
        with self._changed:
            found = self._queue(name)
            self._wait(lambda: not found.takes or self._has_room(found, length))
        body = _body(connection, length)
        if _has_gone(connection):  # it has given up meanwhile, and does not know of this item
            raise ConnectionError
        with self._changed:
            if is_wanted := found.takes:
                found.items.append(body)
                found.nbytes += len(body)
                self._changed.notify_all()
        connection.sendall(wire.header(wire.TAKEN if is_wanted else wire.UNWANTED, "", 0))

    def _has_room(self, found: _Queue, length: int) -> bool:
        fits = found.nbytes + length <= self._most_bytes and len(found.items) < self._most_items
        return fits or not found.items

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
            if _has_gone(connection):  # within the last look: what is taken out would be lost
                return
            taken = [results.items.popleft() for _ in range(min(count, len(results.items)))]
        body = _packed(taken)
        connection.sendall(wire.header(wire.RESULTS, name, body.size))
        for chunk in body.chunks(_CHUNK):
            connection.sendall(chunk)


def _body(connection: socket.socket, length: int) -> memoryview:
    """So many bytes, which nobody else has."""
    body = np.empty(length, np.uint8).data
    if length and not wire.read_exactly(connection, body):
        raise ConnectionError("The connection ended within a message")
    return body


def _has_gone(connection: socket.socket) -> bool:
    """Whether whoever waits for an answer has closed the connection."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


def _packed(results: list[Any]) -> Packed:
    """The results, or what keeps them from travelling, for whoever takes them."""
    try:
        return packed(results)
    except Exception as error:
        return packed(TypeError(f"Results must be picklable, got {results!r:.200}: {error}"))
