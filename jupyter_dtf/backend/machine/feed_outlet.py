"""The sending side of a task's inlet (``backend/task/feed/inlet.py``), for processes of the same user on the same
machine.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ...schema import feed_wire as wire
from ...schema.payload import Packed, packed, unpack

_CHUNK = 1 << 20


def inlets(shared: Path) -> dict[str, Path]:
    """Return the paths of existing inlets, keyed by task. ``shared`` is the directory that a run's tasks on this
    machine share.
    """
    return {wire.task_of(path): path for path in sorted(wire.directory(shared).glob(f"*{wire.SUFFIX}"))}


class Outlet:
    """A connection to the inlet at ``path``. Every method waits at most ``timeout`` seconds for the task.

    Methods may be called from any thread, but only one runs at a time: a full queue blocks all calls on the same
    outlet, so use several outlets to feed several queues simultaneously. If the ``with`` block is left by an exception,
    or the connection is closed without ``close()``, the queues that it has fed fail in the task.

    Raises:
        ConnectionError: If the task does not exist or has ended. All methods raise this error, too.
        TimeoutError: If the timeout has elapsed. The outlet can then no longer be used.
    """

    def __init__(self, path: Path | str, timeout: float | None = None) -> None:
        self._path = Path(path)
        self._turn = threading.Lock()
        self._ends: float | None = None
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.settimeout(timeout)
        try:
            with wire.address(self._path) as address:
                self._connection.connect(address)
        except (FileNotFoundError, ConnectionError, NotADirectoryError) as error:
            self._connection.close()
            raise ConnectionError(f"No task accepts a feed at {self._path}: {error}") from None

    def give_up_at(self, ends: float) -> None:
        """Set a common deadline (``time.monotonic()``) for all calls, which raise TimeoutError after it."""
        self._ends = ends

    def __enter__(self) -> Outlet:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            self.abort()

    def put(self, queue: str, item: Any) -> bool:
        """Add an item to a queue, waiting while it is full.

        Args:
            queue: The name of the queue.
            item: Anything that pickle or cloudpickle supports; arrays are sent without copying. Pickling errors are
                raised before anything is sent.

        Returns:
            Whether the item was accepted. False if the task no longer reads the queue.
        """
        return self._ask(wire.PUT, queue, packed(item))[0] == wire.TAKEN

    def end(self, queue: str) -> None:
        """End a queue. After the items that were put, the task's ``get`` raises EOFError."""
        self._ask(wire.END, queue, Packed([]))

    def fail(self, queue: str, error: BaseException) -> None:
        """End a queue with an error, which the task's ``get`` raises after the items that were put."""
        try:
            body = bytes(packed(error))
            unpack(body)
        except Exception:  # an exception that cannot be pickled and unpickled
            body = bytes(packed(RuntimeError(f"{type(error).__name__}: {error}")))
        self._ask(wire.FAIL, queue, Packed([body]))

    def take(self, queue: str, count: int) -> list[Any]:
        """Wait for ``count`` results from the task and return them; fewer if the task sends no more."""
        kind, body = self._ask(wire.TAKE, queue, Packed([wire.COUNT.pack(count)]))
        results = unpack(body)
        if kind != wire.RESULTS or not isinstance(results, list):
            raise results
        return results

    def close(self) -> None:
        """Disconnect normally. Queues that have not been ended stay open for others to feed."""
        with suppress(OSError):
            self._connection.sendall(wire.header(wire.BYE, "", 0))
        self._connection.close()

    def abort(self) -> None:
        """Disconnect and make queues that were fed but not ended fail in the task. Unblocks calls in other threads."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _ask(self, kind: int, queue: str, body: Packed) -> tuple[int, memoryview]:
        with self._turn:
            try:
                if self._ends is not None:
                    if (left_s := self._ends - time.monotonic()) <= 0:
                        raise TimeoutError
                    self._connection.settimeout(left_s)
                self._connection.sendall(wire.header(kind, queue, body.size))
                for chunk in body.chunks(_CHUNK):
                    self._connection.sendall(chunk)
                answer = wire.read_header(self._connection)
                if answer is None:
                    raise ConnectionError("it has closed its inlet")
                content = np.empty(answer[2], np.uint8).data
                if answer[2] and not wire.read_exactly(self._connection, content):
                    raise ConnectionError("it disconnected in the middle of a reply")
                return answer[0], content
            except TimeoutError:
                self.abort()
                raise TimeoutError(f"The task at {self._path} did not respond in time (queue {queue!r})") from None
            except OSError as error:
                self.abort()
                raise ConnectionError(f"The task that was fed at {self._path} is gone: {error}") from None
