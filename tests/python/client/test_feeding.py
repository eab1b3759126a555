"""Tests of streams that the client reads and sends to tasks in shares. Here, this process plays the tasks as well."""

from __future__ import annotations

import gc
import os
import resource
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, suppress
from typing import Any

import msgspec
import numpy as np
import pytest

from jupyter_dtf.backend.task.fit.sources.base import Share
from jupyter_dtf.backend.task.fit.sources.stream import StreamSource
from jupyter_dtf.backend.task.fit.sources.stream_wire import HEADER, Hello, address_of, receive
from jupyter_dtf.client.feed_window import Batch
from jupyter_dtf.client.feeding import Feed, fed
from jupyter_dtf.client.sources.streams import stream_of
from jupyter_dtf.errors import Conflict, InvalidInput

from ..patience import left_s, until


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
    """Return ``(value, number of rows)`` of all received batches, followed by the error at the end."""
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


def test_who_has_ended_holds_up_nobody(started: Any) -> None:
    """More is read than is kept. Of the two tasks that leave, one has read a batch, and the other has read nothing."""
    source = started(numbers(12, 300_000))  # 86 MB
    with asking(source, rank=0, size=3) as peer:
        receive(peer)
    for rank in (0, 1):
        source.leave(None, Share(rank, 3))
    assert [number for number, _ in heard(source, asking(source, rank=2, size=3))[:-1]] == list(range(12))


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
    assert "must be resumed from the end of an epoch" in heard(source, asking(source, passes=1, within=2))[0]
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
    """If this process cannot open any more files, the next task gets no connection, and the others get an error."""
    on = threading.Event()

    def stuck() -> Iterator[Any]:
        yield from numbers(2)
        on.wait()

    source = started(stuck())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with asking(source) as peer, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as late, ExitStack() as opened:
        assert [receive(peer)[0].batch for _ in range(2)] == [0, 1]
        gc.collect()  # unreferenced files are closed now, not while the task connects
        resource.setrlimit(resource.RLIMIT_NOFILE, (late.fileno() + 1, hard))
        try:
            with suppress(OSError):
                while True:
                    opened.callback(os.close, os.dup(late.fileno()))
            late.connect(address_of(source.name))
            error = receive(peer)[0].error
            with pytest.raises(EOFError):
                receive(late)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            on.set()
    assert "reads the generator can no longer send it: OSError" in error and "Too many open files" in error
    assert isinstance(source.feed.failure, OSError)


def test_an_iterator_is_closed_even_if_its_batches_could_not_be_sent(started: Any) -> None:
    closed = threading.Event()

    def counted() -> Iterator[Any]:
        try:
            yield from numbers(12, 300_000)  # more than is read ahead
        finally:
            closed.set()

    def fail() -> None:
        raise OSError("no more files")

    iterator = counted()  # held, so that it is not closed as garbage
    source = started(iterator)
    source.feed._accept = fail
    with asking(source):
        until(lambda: source.feed._is_closed, "the end of sending")
    source.feed.close()
    assert closed.wait(left_s())


@pytest.mark.parametrize("error", [SystemExit("no data"), CancelledError(), KeyboardInterrupt()], ids=repr)
def test_whatever_an_iterator_raises_reaches_the_tasks(started: Any, error: BaseException) -> None:
    def raises() -> Iterator[Any]:
        yield from numbers(3)
        raise error

    source = started(raises())
    *found, said = heard(source, asking(source))
    assert found == [(0, 5), (1, 5), (2, 5)]
    assert said == f"The generator raised {type(error).__name__}: {error} (at batch 4)"
    assert source.feed.failure is error


def test_a_batch_that_cannot_be_sent_ends_the_stream_for_all() -> None:
    class Unreadable:
        shape = (4,)

        def __getitem__(self, rows: slice) -> Any:
            sys.exit("the file is gone")

    feed = Feed("unreadable", "", "the generator", iter([Batch([Unreadable()], 4, 0)]), lambda: None, trains=True)
    source = StreamSource("unreadable", "", (0,), [], feed=feed)
    feed.start()
    try:
        for rank in range(2):
            with asking(source, rank=rank, size=2) as peer:
                assert "SystemExit: the file is gone (at batch 1)" in receive(peer)[0].error
    finally:
        feed.close()


def test_a_run_that_may_not_read_a_stream_leaves_it_to_the_one_that_does(started: Any) -> None:
    on = threading.Event()

    def waits() -> Iterator[Any]:
        yield from numbers(2)
        on.wait()
        yield from numbers(1)

    source, other = started(waits()), stream_of(numbers(2), "validation_data", "the generator")
    with asking(source) as peer:
        assert [receive(peer)[0].batch for _ in range(2)] == [0, 1]
        with pytest.raises(Conflict, match="has already been read by another run"):
            fed([other.feed, source.feed], lambda: pytest.fail("nothing is submitted"))
        on.set()
        assert [receive(peer)[0].batch for _ in range(2)] == [2, -1]
    assert other.feed._is_closed  # it was started for the run that was refused


def test_words_none_and_other_shapes() -> None:
    source = stream_of(iter([(np.array([["a"], ["bc"]]), None)] * 2), "x", "the iterator")
    assert source.structure == (0,) and source.leaves[0].words
    partly = (np.zeros((2, 3)), [np.zeros(2), np.ones(2)], [np.ones(2), None])
    source = stream_of(iter([partly] * 2), "x", "the iterator")
    assert source.structure == (0, (1, 2), (3, None)) and len(source.leaves) == 4
    assert source.nothing()[2][1] is None
    with pytest.raises(InvalidInput, match="Batches must contain dense arrays"):
        stream_of(iter([None]), "x", "the iterator")
    source = stream_of(iter([(np.zeros((2, 3)),), (np.zeros((2, 4)),)]), "x", "the iterator")
    assert source.leaves[0].shape == (None, None) and source.leaves[0].dtype == "float64"
    with pytest.raises(InvalidInput, match="Batch 2 of the iterator|All batches of the iterator"):
        stream_of(iter([(np.zeros((2, 3)),), (np.zeros(2),)]), "x", "the iterator")
