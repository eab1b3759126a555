"""The protocol between an inlet of a task and the processes that feed it: a header, a queue's name, a body.

An outlet asks, the inlet answers each request once, in order. An item's body is a payload (``schema/payload.py``).
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
"""Kind, bytes of the queue's name, bytes of the body."""

PUT = 1
"""The body is an item. Answered by ``TAKEN`` once it is in the queue, by ``UNWANTED`` if it will not be read."""
END = 2
"""The end of this queue."""
FAIL = 3
"""The queue ends with an error; the body is the exception."""
TAKE = 4
"""The body is ``COUNT``: answered by ``RESULTS`` once there are that many results, or will be no more."""
BYE = 5
"""The last message of a connection that has sent everything."""

TAKEN = 10
UNWANTED = 11
RESULTS = 12
"""The body is a list of results: fewer than requested if the task has no more."""

COUNT = struct.Struct("<Q")
SUFFIX = ".feed"
"""The suffix of the names of sockets."""
_LONGEST = 107
"""The most bytes in the path of a Unix socket."""


def directory(shared: Path) -> Path:
    """The directory of the inlets of a run's tasks on one machine, which these tasks share."""
    return shared / "feeds"


def inlet_path(shared: Path, task: str) -> Path:
    """The socket of a task's inlet."""
    return directory(shared) / (task.replace(":", "-") + SUFFIX)


def task_of(path: Path) -> str:
    """The short name of the task whose inlet it is."""
    job, _, index = path.name.removesuffix(SUFFIX).rpartition("-")
    return f"{job}:{index}"


@contextmanager
def address(path: Path) -> Iterator[str]:
    """An alias of a socket's path that is short enough to bind or connect to. Raises Unavailable if there is none."""
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
    """Fill ``into``. False if the connection ended before the first byte; raises ConnectionError if it did later."""
    done = 0
    while done < len(into):
        count = connection.recv_into(into[done:])
        if not count:
            if done:
                raise ConnectionError("The connection ended within a message")
            return False
        done += count
    return True


def read_header(connection: socket.socket) -> tuple[int, str, int] | None:
    """Kind, queue and bytes of the body of the next message; None if the connection has ended."""
    head = bytearray(HEADER.size)
    if not read_exactly(connection, memoryview(head)):
        return None
    kind, name_length, length = HEADER.unpack(head)
    name = bytearray(name_length)
    if name_length and not read_exactly(connection, memoryview(name)):
        raise ConnectionError("The connection ended within a message")
    return kind, name.decode(), length


def header(kind: int, queue: str, length: int) -> bytes:
    """The beginning of a message, of which the body follows."""
    name = queue.encode()
    return HEADER.pack(kind, len(name), length) + name
