"""The protocol between a task's inlet and the outlets of the processes that feed it with data.

A message consists of a header, the name of a queue, and a body. An outlet sends requests, and the inlet answers each of
them once, in order. The body of an item is a payload (``schema/payload.py``).
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import Unavailable

HEADER = struct.Struct("<BHQ")
"""The kind of message, the number of bytes of the queue's name, and the number of bytes of the body."""

PUT = 1
"""The body is an item. The answer is ``TAKEN`` once the item is in the queue, or ``UNWANTED`` if the task will not read
it."""
END = 2
"""The queue has ended."""
FAIL = 3
"""The queue has ended with an error; the body is the exception."""
TAKE = 4
"""The body is ``COUNT``, a number of results. The answer is ``RESULTS``, which is sent once that many results are
available or no more will follow."""
BYE = 5
"""The last message of an outlet that has sent everything."""

TAKEN = 10
UNWANTED = 11
RESULTS = 12
"""The body is a list of results, with fewer than requested if the task will produce no more."""

COUNT = struct.Struct("<Q")
SUFFIX = ".feed"
"""The suffix of the file names of sockets."""
_LONGEST = 107
"""The largest number of bytes in the path of a Unix socket."""


def directory(shared: Path) -> Path:
    """Return the directory of the inlets of a run's tasks on one machine, below their ``shared`` directory."""
    return shared / "feeds"


def inlet_path(shared: Path, task: str) -> Path:
    """Return the path of the socket of a task's inlet."""
    return directory(shared) / (task.replace(":", "-") + SUFFIX)


def task_of(path: Path) -> str:
    """Return the short name of the task whose inlet has this path."""
    job, _, index = path.name.removesuffix(SUFFIX).rpartition("-")
    return f"{job}:{index}"


@contextmanager
def address(path: Path) -> Iterator[str]:
    """Provide an alias of a socket's path that is short enough to bind or connect to. Raises Unavailable."""
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    if not os.path.isdir("/proc/self/fd"):
        raise Unavailable(f"The path of a Unix socket must have at most {_LONGEST} bytes, got {path}")
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)


def read_exactly(connection: socket.socket, into: memoryview) -> bool:
    """Receive data until ``into`` is full. Returns False if the connection ends before the first byte.

    Raises ConnectionError if the connection ends after the first byte.
    """
    done = 0
    while done < len(into):
        count = connection.recv_into(into[done:])
        if not count:
            if done:
                raise ConnectionError("The connection was closed in the middle of a message")
            return False
        done += count
    return True


def read_header(connection: socket.socket) -> tuple[int, str, int] | None:
    """Read the kind, the queue and the body's number of bytes of the next message; None if the connection has ended."""
    head = bytearray(HEADER.size)
    if not read_exactly(connection, memoryview(head)):
        return None
    kind, name_length, length = HEADER.unpack(head)
    name = bytearray(name_length)
    if name_length and not read_exactly(connection, memoryview(name)):
        raise ConnectionError("The connection was closed in the middle of a message")
    return kind, name.decode(), length


def header(kind: int, queue: str, length: int) -> bytes:
    """Return the part of a message that precedes the body."""
    name = queue.encode()
    return HEADER.pack(kind, len(name), length) + name
