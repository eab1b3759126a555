"""A pickled program and its arrays, laid out so that the tasks of a machine share one copy of the arrays.

The layout is two little-endian u64 (the number of buffers, the length of the pickle), a u64 length for each buffer, the
pickle, then each buffer at the next multiple of 64 bytes. The buffers are those of pickle protocol 5. A reader maps the
file copy-on-write, so arrays are loaded lazily and are writable.
"""

from __future__ import annotations

import mmap
import pickle
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

_ALIGN = 64


_SMALL = 1 << 16
"""Pieces of a payload smaller than this, in bytes, are joined, so that not every array needs a separate message."""


class Packed:
    """A payload that is not laid out yet. It refers to the caller's arrays, which must not be changed."""

    def __init__(self, pieces: Iterable[bytes | memoryview]) -> None:
        self._pieces = [memoryview(piece).cast("B") for piece in pieces if len(piece)]
        self.size = sum(len(piece) for piece in self._pieces)

    def chunks(self, most: int) -> Iterator[memoryview]:
        """Yield the payload in chunks of at most ``most`` bytes (at least 64 KiB), without copying arrays."""
        waiting = bytearray()
        for piece in self._pieces:
            for start in range(0, len(piece), most):
                part = piece[start : start + most]
                if len(waiting) + len(part) > _SMALL and waiting:
                    yield memoryview(bytes(waiting))
                    waiting.clear()
                if len(part) < _SMALL:
                    waiting += part
                else:
                    yield part
        if waiting:
            yield memoryview(bytes(waiting))

    def __bytes__(self) -> bytes:
        return b"".join(self._pieces)


def packed(value: Any) -> Packed:
    """Pickle a value as a payload. Functions and classes of ``__main__`` are pickled by value (cloudpickle)."""
    import cloudpickle

    buffers: list[pickle.PickleBuffer] = []
    body = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return Packed(_layout(body, [buffer.raw() for buffer in buffers]))


def pack(value: Any) -> bytes:
    """Pickle a value as a payload, laid out in one piece."""
    return bytes(packed(value))


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
    """Return the value of a payload. Its arrays are views of ``payload``, and are writable if ``payload`` is."""
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
    """Return the value of a payload file, with its arrays mapped copy-on-write."""
    with open(path, "rb") as file:
        return unpack(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
