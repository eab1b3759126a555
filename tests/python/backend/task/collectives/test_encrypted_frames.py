"""Encrypted frames: what is sent arrives, and anything else is an error."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from jupyter_dtf.backend.task.collectives.tcp.encrypted_frames import FrameReader, FrameWriter, new_key

Ends = tuple[socket.socket, socket.socket]
FRAME_BYTES = 1 << 18
OVERHEAD_BYTES = 4 + 16


@pytest.fixture
def ends() -> Iterator[Ends]:
    pair = socket.socketpair()
    yield pair
    for end in pair:
        end.close()


def read(reader: FrameReader, length: int, at_a_time: int) -> bytes:
    """Read ``length`` bytes, at most ``at_a_time`` with each call. Fails if the stream ends earlier."""
    data = bytearray(length)
    rest = memoryview(data)
    while rest:
        count = reader.recv_into(rest[:at_a_time])
        assert count
        rest = rest[count:]
    return bytes(data)


def frames(data: bytes, key: bytes) -> list[bytes]:
    """Return the frames in which ``data`` is sent, each of at most 100 bytes of data."""
    found = []
    first, second = socket.socketpair()
    with first, second:
        writer = FrameWriter(first, key)
        for start in range(0, len(data), 100):
            writer.sendall(data[start : start + 100])
            found.append(second.recv(1000))
    return found


@pytest.mark.parametrize("at_a_time", [7, 1000, FRAME_BYTES - 1, FRAME_BYTES, 10 * FRAME_BYTES])
@pytest.mark.parametrize("length", [1, FRAME_BYTES, FRAME_BYTES + 1, 700_000])
def test_data_arrives_however_it_is_read(ends: Ends, length: int, at_a_time: int) -> None:
    key, sent = new_key(), os.urandom(length)
    writer, reader = FrameWriter(ends[0], key), FrameReader(ends[1], key)
    thread = threading.Thread(target=writer.sendall, args=(sent,))
    thread.start()
    assert read(reader, length, at_a_time) == sent
    thread.join()
    assert reader.pending() == 0
    ends[0].shutdown(socket.SHUT_WR)
    assert reader.recv_into(memoryview(bytearray(1))) == 0


def test_pending_counts_the_rest_of_a_frame(ends: Ends) -> None:
    key = new_key()
    FrameWriter(ends[0], key).sendall(b"0123456789")
    reader = FrameReader(ends[1], key)
    assert (reader.pending(), read(reader, 4, 4), reader.pending()) == (0, b"0123", 6)


def test_data_is_not_readable_on_the_way(ends: Ends) -> None:
    sent = b"secret gradients" * 10
    FrameWriter(ends[0], new_key()).sendall(sent)
    seen = ends[1].recv(1000)
    assert len(seen) == len(sent) + OVERHEAD_BYTES
    assert b"secret" not in seen


def test_two_connections_never_share_a_stream_of_bytes() -> None:
    keys = [new_key(), new_key()]
    assert frames(b"a" * 100, keys[0]) != frames(b"a" * 100, keys[1])
    one, other = frames(b"a" * 200, keys[0])
    assert one != other  # a nonce for each frame


@pytest.mark.parametrize(
    "change",
    [
        lambda a, b, c: [a, c],  # left out
        lambda a, b, c: [a, a],  # repeated
        lambda a, b, c: [b, a],  # reordered
        lambda a, b, c: [a, b[:-1] + bytes([b[-1] ^ 1])],  # the tag
        lambda a, b, c: [a, b[:10] + bytes([b[10] ^ 1]) + b[11:]],  # the data
        lambda a, b, c: [a, (99).to_bytes(4, "little") + b[4:]],  # the length
        lambda a, b, c: [a, b"\xff" * 4 + b[4:]],
        lambda a, b, c: [a, frames(b"x" * 200, new_key())[1]],  # of another connection
    ],
)
def test_what_was_not_sent_like_this_is_an_error(ends: Ends, change: object) -> None:
    key = new_key()
    assert callable(change)
    ends[0].sendall(b"".join(change(*frames(b"x" * 300, key))))
    reader = FrameReader(ends[1], key)
    with pytest.raises(ConnectionAbortedError, match="was modified, or is not the next one|at most 262144 bytes"):
        read(reader, 200, 100)


@pytest.mark.parametrize("count", [2, 50, 119])
def test_a_frame_that_was_cut_off_is_the_end(ends: Ends, count: int) -> None:
    key = new_key()
    ends[0].sendall(frames(b"x" * 100, key)[0][:count])
    ends[0].shutdown(socket.SHUT_WR)
    assert FrameReader(ends[1], key).recv_into(memoryview(bytearray(100))) == 0
