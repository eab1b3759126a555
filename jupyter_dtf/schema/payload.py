"""A pickled program with its arrays beside it, laid out so that the tasks of a machine share one copy of them.

Layout: two little-endian u64 (number of buffers, length of the pickle), a u64 length per buffer, the pickle, then each
buffer at the next multiple of 64 bytes. The buffers are those of pickle protocol 5; a reader maps the file copy on
write, so arrays come without being read and may be written to.
"""

from __future__ import annotations

import mmap
import pickle
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ALIGN = 64


def pack(value: Any) -> bytes:
    """The payload of any picklable value; functions and classes of ``__main__`` travel by value (cloudpickle)."""
    import cloudpickle

    buffers: list[pickle.PickleBuffer] = []
    body = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    raws = [buffer.raw() for buffer in buffers]
    return b"".join(_layout(body, raws))


def _layout(body: bytes, raws: list[memoryview]) -> Iterator[bytes | memoryview]:
    head = struct.pack(f"<QQ{len(raws)}Q", len(raws), len(body), *(len(raw) for raw in raws))
    yield head
    yield body
    position = len(head) + len(body)
    for raw in raws:
        gap = -position % _ALIGN
        yield bytes(gap)
        yield raw
        position += gap + len(raw)


def unpack(payload: bytes | bytearray | memoryview | mmap.mmap) -> Any:
    """The value of a payload. Arrays are views of ``payload``: writable if it is."""
    view = memoryview(payload)
    count, body_length = struct.unpack_from("<QQ", view)
    lengths = struct.unpack_from(f"<{count}Q", view, 16)
    position = 16 + 8 * count
    body = view[position : position + body_length]
    position += body_length
    buffers = []
    for length in lengths:
        position += -position % _ALIGN
        buffers.append(view[position : position + length])
        position += length
    return pickle.loads(body, buffers=buffers)


def load(path: str | Path) -> Any:
    """The value of a payload file, its arrays mapped copy on write."""
    with open(path, "rb") as file:
        return unpack(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
