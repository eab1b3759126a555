"""A stream read here and sent to those who ask for shares of it, which are this process's own threads."""

from __future__ import annotations

import os
import resource
import socket
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from jupyter_dtf.backend.task.fit.sources.stream import StreamSource
from jupyter_dtf.backend.task.fit.sources.stream_wire import HEADER, Hello, address_of, receive
from jupyter_dtf.client.sources.streams import stream_of
from jupyter_dtf.errors import Conflict, InvalidInput


def numbers(count: int, rows: int = 5) -> Iterator[Any]:
    for number in range(count):
        yield np.full((rows, 2), number), np.arange(rows)


@pytest.fixture
def started() -> Iterator[Any]:
    sources: list[StreamSource] = []

    def start(iterator: Iterator[Any], field: str = "x") -> StreamSource:
        sources.append(stream_of(iterator, field, "the generator"))
        sources[-1].feed.start()
        return sources[-1]

    yield start
    for source in sources:
        source.feed.close()


def asking(source: StreamSource, **hello: Any) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.connect(address_of(source.name))
    data = msgspec.msgpack.encode(Hello(**{"secret": source.secret, "rank": 0, "size": 1, **hello}))
    peer.sendall(HEADER.pack(len(data), 0) + data)
    return peer


def heard(source: StreamSource, peer: socket.socket) -> list[Any]:
    """``(the batch's value, how many rows)`` of all that comes, and what is said at the end."""
    found: list[Any] = []
    with peer:
        while True:
            message, raws = receive(peer)
            if message.batch < 0:
                return [*found, message.error]
            x, y = source.values(message, raws)
            assert len(x) == len(y)
            found.append((int(x[0, 0]) if len(x) else None, len(x)))


def test_every_task_gets_its_share_of_every_batch(started: Any) -> None:
    source = started(numbers(3))
    shares: dict[int, list[Any]] = {}

    def ask(rank: int) -> None:
        shares[rank] = heard(source, asking(source, rank=rank, size=3))

    threads = [threading.Thread(target=ask, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rank, rows in enumerate((1, 2, 2)):
        assert shares[rank] == [(0, rows), (1, rows), (2, rows), ""]


def test_a_pass_after_the_end_is_the_first_two_batches_as_in_keras(started: Any) -> None:
    source = started(numbers(4))
    assert len(heard(source, asking(source))) == 5
    assert heard(source, asking(source, again=1)) == [(0, 5), (1, 5), ""]


def test_who_is_started_again_goes_on_after_what_has_been_trained_on(started: Any) -> None:
    source = started(numbers(9))
    with asking(source, in_parts=True) as peer:
        receive(peer)
    assert heard(source, asking(source, in_parts=True, passes=1, passed=4, within=2)) == [(6, 5), (7, 5), (8, 5), ""]


def test_a_new_generator_does_not_begin_in_the_middle_of_an_epoch(started: Any) -> None:
    source = started(numbers(9))
    assert "no place in the middle of one" in heard(source, asking(source, passes=1, within=2))[0]
    assert heard(source, asking(source, in_parts=True, passes=5, passed=20))[0] == (0, 5)


def test_nobody_is_sent_anything_without_the_secret(started: Any) -> None:
    source = started(numbers(3))
    with asking(source, secret="") as peer, pytest.raises(EOFError):
        receive(peer)


def test_a_stop_ends_who_waits_and_closing_ends_all(started: Any) -> None:
    on = threading.Event()
    closed = threading.Event()

    def stuck() -> Iterator[Any]:
        try:
            yield from numbers(2)
            on.wait()
        finally:
            closed.set()

    source = started(stuck())
    with asking(source) as peer:
        assert [receive(peer)[0].batch for _ in range(2)] == [0, 1]
        source.feed.stop()
        assert receive(peer)[0].batch == -1
        source.feed.close()
        with pytest.raises(EOFError):
            receive(peer)
    on.set()
    assert closed.wait(60)
    with pytest.raises(Conflict):
        source.feed.start()


def test_who_cannot_be_taken_in_is_an_error_for_all_that_says_why(started: Any) -> None:
    """This process has as many files open as it may: the next task gets no connection."""
    on = threading.Event()

    def stuck() -> Iterator[Any]:
        yield from numbers(2)
        on.wait()

    source = started(stuck())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with asking(source) as peer, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as late:
        assert [receive(peer)[0].batch for _ in range(2)] == [0, 1]
        free = os.dup(late.fileno())
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            late.connect(address_of(source.name))
            error = receive(peer)[0].error
            with pytest.raises(EOFError):
                receive(late)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            on.set()
    assert "reads the generator serves no task any more: OSError" in error and "Too many open files" in error
    assert isinstance(source.feed.failure, OSError)


def test_words_none_and_other_shapes() -> None:
    source = stream_of(iter([(np.array([["a"], ["bc"]]), None)] * 2), "x", "the iterator")
    assert source.structure == (0,) and source.leaves[0].words
    source = stream_of(iter([(np.zeros((2, 3)),), (np.zeros((2, 4)),)]), "x", "the iterator")
    assert source.leaves[0].shape == (None, None) and source.leaves[0].dtype == "float64"
    with pytest.raises(InvalidInput, match="Batch 2 of the iterator|All batches of the iterator"):
        stream_of(iter([(np.zeros((2, 3)),), (np.zeros(2),)]), "x", "the iterator")
