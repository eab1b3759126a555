"""The pushing side of a task's inlet (``backend/task/feed/inlet.py``), for processes of the same machine and user."""

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
    """The inlets that there are by their tasks' short names, in what the tasks of a run share on this machine."""
    return {wire.task_of(path): path for path in sorted(wire.directory(shared).glob(f"*{wire.SUFFIX}"))}


class Outlet:
    """A connection to the inlet at ``path``. Every method waits for the task, for at most ``timeout`` seconds.

    Raises ConnectionError, here and in all methods, where the task is not there or has gone, and TimeoutError after
    the time, when it is of no use any more. Its methods may be called from any thread, one after the other: a queue
    that is full keeps those of the same outlet waiting, so that who feeds several queues at once has several outlets.
    Left by an exception, as closed without ``close()``, the queues that it has fed fail in the task.
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
            raise ConnectionError(f"No task takes what it is fed at {self._path}: {error}") from None

    def give_up_at(self, ends: float) -> None:
        """From ``ends`` on, as of ``time.monotonic()``, methods raise TimeoutError, however short each was."""
        self._ends = ends

    def __enter__(self) -> Outlet:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            self.abort()

    def put(self, queue: str, item: Any) -> bool:
        """Add an item to a queue when there is room. False where nobody reads it any more.

        What pickle, or cloudpickle, can take: arrays go as they are. Raises what pickling raises, before it sends.
        """
        return self._ask(wire.PUT, queue, packed(item))[0] == wire.TAKEN

    def end(self, queue: str) -> None:
        """No more items come: the task gets EOFError after those that were put."""
        self._ask(wire.END, queue, Packed([]))

    def fail(self, queue: str, error: BaseException) -> None:
        """No more items come: the task gets this error after those that were put."""
        try:
            body = bytes(packed(error))
            unpack(body)
        except Exception:  # an exception that pickle cannot bring back
            body = bytes(packed(RuntimeError(f"{type(error).__name__}: {error}")))
        self._ask(wire.FAIL, queue, Packed([body]))

    def take(self, queue: str, count: int) -> list[Any]:
        """So many results, when the task has given them; fewer where it gives no more."""
        kind, body = self._ask(wire.TAKE, queue, Packed([wire.COUNT.pack(count)]))
        results = unpack(body)
        if kind != wire.RESULTS or not isinstance(results, list):
            raise results
        return results

    def close(self) -> None:
        """All that was to be fed has been put. Queues that are not ended go on, fed by others."""
        with suppress(OSError):
            self._connection.sendall(wire.header(wire.BYE, "", 0))
        self._connection.close()

    def abort(self) -> None:
        """Give up: the queues that were fed and not ended fail in the task. Wakes who waits in another method."""
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
                    raise ConnectionError("it has gone within an answer")
                return answer[0], content
            except TimeoutError:
                self.abort()
                raise TimeoutError(f"The task at {self._path} did not take {queue!r} in time") from None
            except OSError as error:
                self.abort()
                raise ConnectionError(f"The task that takes its feed at {self._path} has gone: {error}") from None
