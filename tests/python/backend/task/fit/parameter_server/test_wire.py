"""Tests of messages and arrays between workers and servers, and of authentication."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.backend.task.fit.parameter_server.messages import Done, Push
from jupyter_dtf.backend.task.fit.parameter_server.wire import (
    STRANGERS,
    Channel,
    Reader,
    accept,
    connect,
    listen,
    listen_on_port,
)

SECRET = b"the run's secret"


@contextmanager
def ends(listener: socket.socket, address: Any) -> Iterator[tuple[Channel, Channel]]:
    """Yield the server's end and the worker's end of a connection."""
    accepted: list[Channel] = []
    thread = threading.Thread(target=lambda: accepted.append(accept(listener.accept()[0], SECRET)))
    thread.start()
    mine = connect(address, SECRET)
    thread.join()
    yield accepted[0], mine
    for channel in (accepted[0], mine):
        channel.close()
    listener.close()


@pytest.fixture(params=["socket", "memory", "port", "port, not encrypted"])
def channels(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Channel, Channel]]:
    if request.param.startswith("port"):
        monkeypatch.setenv("DTF_ENCRYPT", "0" if "not" in request.param else "1")
        listener = listen_on_port("127.0.0.1", 0)
        address: Any = listener.getsockname()
    else:
        address = tmp_path / "ps"
        listener = listen(address)
    with ends(listener, address) as (server, worker):
        if request.param == "memory":
            worker.share_memory(tmp_path / "up", tmp_path / "down")
            server.share_memory(tmp_path / "down", tmp_path / "up")
        yield server, worker


def test_words_and_arrays_arrive_as_they_were(channels: tuple[Channel, Channel]) -> None:
    server, worker = channels
    word = Push(3, 7, 32, absent=(1,), sparse=((0, 2, True),), learning_rate=0.1, stop=True)
    for length in (0, 5, 100_000):  # the memory has to grow
        arrays: list[Any] = [np.arange(length, dtype=np.float32), np.arange(3, dtype=np.int64), np.ones((2, 2))]
        sender = threading.Thread(target=worker.send, args=(word, *arrays))
        sender.start()
        received, payload = server.receive()
        sender.join()
        assert received == word
        reader = Reader(payload)
        for array in arrays:
            np.testing.assert_array_equal(reader.take(array.dtype, array.size), array.ravel())
        server.send(Done())
        assert worker.receive()[0] == Done()


def test_a_payload_that_is_too_short_is_an_error() -> None:
    reader = Reader(np.zeros(64, np.uint8))
    reader.take(np.float32, 16)
    with pytest.raises(ValueError, match="`payload` must have 4 bytes at offset 64"):
        reader.take(np.float32, 1)


def test_the_end_of_the_other_side_is_seen(channels: tuple[Channel, Channel]) -> None:
    server, worker = channels
    worker.close()
    with pytest.raises((EOFError, OSError)):
        server.receive()


def test_a_worker_that_does_not_know_the_secret_is_not_let_in(tmp_path: Path) -> None:
    with listen(tmp_path / "ps") as listener:
        outcome: list[BaseException] = []

        def serve() -> None:
            try:
                accept(listener.accept()[0], SECRET)
            except STRANGERS as error:
                outcome.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(STRANGERS):
            connect(tmp_path / "ps", b"a guess")
        thread.join()
        assert len(outcome) == 1


def test_a_server_that_does_not_know_the_secret_is_not_trusted(tmp_path: Path) -> None:
    with listen(tmp_path / "ps") as listener:

        def impostor() -> None:
            connected, _ = listener.accept()
            with connected:
                connected.sendall(struct.pack("!i", 32) + bytes(32))
                connected.recv(1000)
                connected.sendall(struct.pack("!i", 32) + bytes(32))
                connected.recv(1000)

        thread = threading.Thread(target=impostor)
        thread.start()
        with pytest.raises(STRANGERS, match="a different proof from a ps"):
            connect(tmp_path / "ps", SECRET)
        thread.join()


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n\r\n", struct.pack("!i", 1 << 30), bytes(100)])
def test_who_speaks_otherwise_is_not_let_in(said: bytes, tmp_path: Path) -> None:
    with listen(tmp_path / "ps") as listener, socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(tmp_path / "ps"))
        stranger.sendall(said)
        stranger.shutdown(socket.SHUT_WR)
        with pytest.raises(STRANGERS):
            accept(listener.accept()[0], SECRET)


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n\r\n", struct.pack("!i", 32) + bytes(32)])
def test_across_machines_who_does_not_speak_tls_is_not_let_in(said: bytes) -> None:
    with listen_on_port("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()) as stranger:
        stranger.sendall(said)
        stranger.shutdown(socket.SHUT_WR)
        with pytest.raises(STRANGERS):
            accept(listener.accept()[0], SECRET)
