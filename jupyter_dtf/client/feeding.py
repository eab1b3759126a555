"""Reads a stream in this process while a run trains on it: reads batches ahead, up to a limit, and sends them to tasks.

There are two threads. One reads the caller's iterator and sends as much of each batch as the sockets accept without
blocking; the other sends the rest when they accept more, and listens for connections. Handing every batch from one
thread to the other would cost one switch of the interpreter lock per batch, which would delay a slow iterator.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import select
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from ..backend.task.fit.sources.base import Share
from ..backend.task.fit.sources.stream_wire import (
    HEADER,
    MOST_HELLO_BYTES,
    Hello,
    Message,
    address_of,
    encoded,
    is_own,
)
from ..errors import Conflict, InvalidInput
from ..schema.run import RunState
from .feed_cursor import Cursor, exactly, part_of
from .feed_window import Batch, Window
from .run import Run

AnyRun = TypeVar("AnyRun", bound=Run)

_HELLO_S = 5.0
_ONCE = "and cannot be read again. Pass a keras.utils.PyDataset or a tf.data.Dataset instead, which can be read again"


class Feed:
    """A stream that is read from ``batches`` once it is started. ``close`` is called when nothing more will be read.

    An error raised by ``batches`` is raised in every task in place of the batch.
    """

    def __init__(
        self, name: str, secret: str, what: str, batches: Iterator[Batch], close: Callable[[], object], *, trains: bool
    ) -> None:
        """``trains``: whether the stream is training data. If so, it is read ahead of the tasks' requests, and a run
        that is being stopped gets the end of the stream instead of waiting for the next batch.
        """
        self.what = what
        self.failure: BaseException | None = None
        """The error that was raised by the iterator or while sending its values."""
        self._name = name
        self._secret = secret
        self._batches = batches
        self._close_iterator = close
        self._trains = trains
        self._is_given_up = False
        self._window = Window()
        self._lock = threading.Condition()
        self._cursors: dict[int, Cursor] = {}
        self._by_descriptor: dict[int, Cursor] = {}
        self._size = 0
        self._ended: set[int] = set()
        """Ranks of tasks that have ended and need no more batches unless they are restarted."""
        self._turn = self._read_turn = 0
        """The numbers of the iterator to read and of the one being read. If they differ, its next value is dropped."""
        self._most: int | None = None if trains else self._window.heads
        self._base: tuple[int, int] | None = None
        self._stops = False
        self._is_closed = False
        """Whether sending has ended, because the run has, or because it failed."""
        self._is_over = False
        """Whether the run has ended."""
        self._is_started = False

    # -- lifecycle ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start reading and listening. Raises Conflict if the stream has been read already."""
        with self._lock:
            if self._is_started:
                raise Conflict(f"{self.what[:1].upper()}{self.what[1:]} has already been read by another run {_ONCE}")
            self._is_started = True
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(address_of(self._name))
        self._listener.listen(64)
        self._poll = select.epoll()
        self._poll.register(self._listener, select.EPOLLIN)
        self._wake = os.eventfd(0)
        self._poll.register(self._wake, select.EPOLLIN)
        for run, name in ((self._read, "dtf-read"), (self._serve, "dtf-feed")):
            threading.Thread(target=run, name=name, daemon=True).start()

    def stop(self) -> None:
        """Send the end of the stream to tasks that wait for a batch, because the run is being stopped."""
        with self._lock:
            if self._trains and self._is_started and not self._stops:
                self._stops = True
                if self._window.ended is None:
                    self._window.ended = self._window.count
                self._flush()
                self._lock.notify_all()

    def close(self, *, give_up: bool = True) -> None:
        """Stop sending, because the run has ended.

        ``give_up``: whether to close the iterator, after any batch that is being read has arrived. If not, the caller
        may continue with it.
        """
        with self._lock:
            if self._is_over or not self._is_started:
                self._is_over = self._is_closed = self._is_started = True
                return
            self._is_over, self._is_given_up = True, give_up
            self._lock.notify_all()
            if not self._is_closed:
                self._is_closed = True
                os.eventfd_write(self._wake, 1)

    # -- reading ------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            while self._await_room():
                batch, failure = None, None
                try:
                    batch = self._next()
                except BaseException as error:  # including SystemExit: it must be reported to the tasks
                    failure = error
                with self._lock:
                    if self._window.ended is not None:
                        break
                    if self._read_turn == self._turn:
                        self._take(batch, failure)
                        self._flush()
        except BaseException as error:
            with self._lock:
                self.failure = self.failure or error
                self._window.ended = self._window.count
                for cursor in list(self._by_descriptor.values()):  # waiting tasks get no more batches
                    self._lost(cursor)
        finally:
            with self._lock:
                while not self._is_over:  # there may be nothing more to read, but the run has not ended
                    self._lock.wait()
            if self._is_given_up:
                with contextlib.suppress(Exception):
                    self._close_iterator()

    def _await_room(self) -> bool:
        """Wait until the next batch may be read. Return False if no more batches should be read."""
        with self._lock:
            while not self._is_closed and self._window.ended is None:
                if self._window.has_room and self._is_wanted:
                    return True
                self._lock.wait()
            return False

    @property
    def _is_wanted(self) -> bool:
        """Whether any task may need the next batch."""
        return self._most is None or self._window.count < self._most

    def _next(self) -> Batch | None:
        """Return the next batch; None if there is none. Raises any error of the iterator."""
        return next(self._batches, None)

    def _take(self, batch: Batch | None, failure: BaseException | None) -> None:
        """Store the batch or the error that has been read. Call with the lock held."""
        self.failure = failure
        if batch is None:
            self._window.ended = self._window.count
        else:
            self._window.add(batch)

    @property
    def _reason(self) -> Message:
        """The message that follows the last batch."""
        if self.failure is None or self._stops:
            return Message(stopped=self._stops)
        return self._said(self.failure, self._number(self._window.count) + 1)

    def _said(self, error: BaseException, number: int) -> Message:
        """Return the message that reports an error in batch ``number``, counted from 1, to the tasks."""
        if isinstance(error, InvalidInput):
            return Message(error=f"Batch {number} of {self.what}: {error}", is_input=True)
        text = "".join(traceback.format_exception(error)).rstrip()
        name = f"{type(error).__name__}: {error}"
        what = f"{self.what[:1].upper()}{self.what[1:]}"
        return Message(error=f"{what} raised {name} (at batch {number})", detail=text)

    def _number(self, place: int) -> int:
        """Return the number of a batch within its pass, from 0, given its position in the stream."""
        return place

    # -- sending ------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Send to every task as much as its socket accepts. Call with the lock held."""
        for cursor in list(self._by_descriptor.values()):
            self._send(cursor)
        self._move()

    def _move(self) -> None:
        places = [cursor.following for rank, cursor in self._cursors.items() if rank not in self._ended]
        if self._size and len(self._ended | self._cursors.keys()) == self._size:
            known = [place for place in places if place is not None]
            self._window.move(min(known) if known else self._window.count)
        if self._window.has_room:
            self._lock.notify_all()

    def _send(self, cursor: Cursor) -> None:
        peer = cursor.peer
        if peer is None:
            return
        try:
            while cursor.pending or self._fill(cursor):
                sent = peer.sendmsg(cursor.pending[:64], (), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                cursor.take(sent)
        except BlockingIOError:
            if not cursor.is_watched:
                cursor.is_watched = True
                self._poll.modify(peer, select.EPOLLIN | select.EPOLLOUT)
            return
        except OSError:
            self._lost(cursor)
            return
        if cursor.is_watched:
            cursor.is_watched = False
            self._poll.modify(peer, select.EPOLLIN)

    def _fill(self, cursor: Cursor) -> bool:
        """Prepare the next message for a task. Return whether there is one. If it cannot be sent, the stream ends."""
        if cursor.is_over:
            return False
        try:
            found = self._following(cursor)
            if found is None:
                return False
            message, parts = found
            buffers = encoded(message, parts)
        except BaseException as error:
            self.failure = self.failure or error
            if self._window.ended is None:
                self._window.ended = self._window.count
                self._lock.notify_all()
            message = self._said(self.failure, self._number(cursor.next) + 1)
            buffers = encoded(message)
        cursor.pending = [memoryview(each) for each in buffers]
        cursor.is_over = message.batch < 0
        cursor.next += not cursor.is_over
        return True

    def _following(self, cursor: Cursor) -> tuple[Message, list[Any]] | None:
        """Return the next message for a task and its values; None if there is none yet."""
        window, number = self._window, cursor.next
        parts: list[Any] = []
        if (until := self._end_for(cursor)) is not None and number >= until:
            message = Message()
        elif number < window.count:
            batch = window.get(number)
            if batch is None:
                message = self._gone(number)
            else:
                low, high = cursor.share.bounds(batch.examples)
                parts = [part_of(leaf, low, high) for leaf in batch.leaves]
                message = Message(batch=number, leaves=[((high - low, *leaf.shape[1:]), 0) for leaf in batch.leaves])
        elif window.ended is not None:
            message = self._reason
        else:
            return None
        message.note, cursor.note = cursor.note, ""
        return message, parts

    def _end_for(self, cursor: Cursor) -> int | None:
        """Return the position after the last batch of a task's pass; None if the pass ends with the stream."""
        return cursor.until

    def _gone(self, number: int) -> Message:
        return Message(
            error=(
                f"Training would continue with batch {number + 1} of {self.what}, but the batches up to "
                f"{self._window.first} have already been read {_ONCE}; or write checkpoints more often "
                "(dtf.Checkpoint(every_steps=...)), so that fewer batches have to be read again"
            ),
            is_input=True,
        )

    def _lost(self, cursor: Cursor) -> None:
        """Close the connection of a task that has disconnected or has read enough."""
        peer, cursor.peer, cursor.pending = cursor.peer, None, []
        if peer is not None:
            self._by_descriptor.pop(peer.fileno(), None)
            with contextlib.suppress(OSError, ValueError):
                self._poll.unregister(peer)
            peer.close()

    # -- listening ----------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            while True:
                ready = self._poll.poll()
                with self._lock:
                    if self._is_closed:
                        break
                    for descriptor, events in ready:
                        if (cursor := self._by_descriptor.get(descriptor)) is None:
                            continue
                        if events & ~select.EPOLLOUT:  # a task sends nothing after its hello, so it has disconnected
                            self._lost(cursor)
                        else:
                            self._send(cursor)
                    self._move()
                if any(descriptor == self._listener.fileno() for descriptor, _ in ready):
                    self._accept()
        except Exception as error:
            with self._lock:
                self._break(error)
        finally:
            with self._lock:
                self._is_closed = True
                self._lock.notify_all()
                for cursor in list(self._by_descriptor.values()):
                    self._lost(cursor)
                self._listener.close()
                self._poll.close()
                os.close(self._wake)

    def _break(self, error: Exception) -> None:
        """Report to the connected tasks, and to the caller, why serving has failed."""
        self.failure = self.failure or error
        if self._window.ended is None:  # a batch that is being read now can no longer be sent
            self._window.ended = self._window.count
        if not self._stops and not self._is_closed:
            text = f"The process that reads {self.what} can no longer send it: {type(error).__name__}: {error}"
            for cursor in list(self._by_descriptor.values()):
                if not cursor.pending:
                    cursor.is_over = True
                    cursor.pending = [memoryview(each) for each in encoded(Message(error=text))]
                self._send(cursor)

    def _accept(self) -> None:
        """Accept a task's connection.

        Raises OSError if this process has reached its limit of open files, because the pending connection would
        otherwise be reported again and again.
        """
        try:
            peer, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.ECONNABORTED, errno.EINTR, errno.EAGAIN):
                return  # the task has disconnected
            raise
        hello = self._hello(peer) if is_own(peer) else None
        if hello is None or not hmac.compare_digest(hello.secret.encode(), self._secret.encode()):
            peer.close()
            return
        with self._lock:
            if hello.ended:
                self._ended.add(hello.rank)
                peer.close()
                self._move()
                return
            cursor = Cursor(peer, Share(hello.rank, hello.size))
            self._by_descriptor[peer.fileno()] = cursor
            self._poll.register(peer, select.EPOLLIN)
            if hello.peek:
                self._peek(cursor, hello.peek)
            elif why := self._place(cursor, hello):
                cursor.is_over = True
                cursor.pending = [memoryview(each) for each in encoded(Message(error=why, is_input=True))]
            self._send(cursor)
            self._move()

    def _hello(self, peer: socket.socket) -> Hello | None:
        peer.settimeout(_HELLO_S)
        try:
            length, _ = HEADER.unpack(exactly(peer, HEADER.size))
            data = exactly(peer, min(length, MOST_HELLO_BYTES))
            return msgspec.msgpack.decode(data, type=Hello)
        except (OSError, msgspec.MsgspecError):
            return None
        finally:
            peer.settimeout(None)

    def _peek(self, cursor: Cursor, count: int) -> None:
        cursor.until = min(count, self._window.heads, self._window.count)
        if cursor.until < count and self._window.ended is None:
            cursor.is_over = True
            error = f"Only the first {cursor.until} batches are kept"
            cursor.pending = [memoryview(each) for each in encoded(Message(error=error))]

    def _place(self, cursor: Cursor, hello: Hello) -> str:
        """Move a task's cursor to the batch at which the task continues.

        Return an error message if the task cannot continue there, and otherwise an empty string.
        """
        place = hello.passed + hello.within
        if self._base is None:
            if hello.within:
                return (
                    f"Training on {self.what} must be resumed from the end of an epoch, because the stream can only "
                    f"be read from its beginning, got a checkpoint after {hello.within} steps of an epoch"
                )
            self._base = hello.passes, hello.passed
        passes, passed = self._base
        self._most = None
        if hello.only:
            self._window.heads = max(hello.only, self._window.heads)
            self._most = hello.only
            cursor.until = hello.only
        # Keras draws two batches to learn their shapes and starts each iteration with these two, although the generator
        # continues where it was. Once the generator is exhausted, a pass consists of these two batches only.
        elif hello.again if hello.in_parts else hello.passes - passes + hello.again:
            cursor.until = min(2, self._window.count)
            cursor.next = hello.within
            cursor.follows = False
        else:
            cursor.next = place - passed if hello.in_parts else hello.within
            if self._window.ended is not None and cursor.next > self._window.ended and not self._stops:
                return f"{self.what[:1].upper()}{self.what[1:]} had ended before the tasks were restarted {_ONCE}"
            if not self._window.has(cursor.next):
                return self._gone(cursor.next).error
        self._seat(cursor, hello)
        return ""

    def _seat(self, cursor: Cursor, hello: Hello) -> None:
        """Register a task of the run. It may replace an earlier process of the same task or an earlier set of tasks."""
        if hello.size != self._size:
            for other in self._cursors.values():
                self._lost(other)
            self._cursors, self._size = {}, hello.size
        self._ended.discard(hello.rank)
        if (before := self._cursors.get(hello.rank)) is not None:
            self._lost(before)
        self._cursors[hello.rank] = cursor
        for other in self._cursors.values():  # keep the batches for tasks that have not reconnected yet
            if other.peer is None and cursor.follows:
                other.next = min(other.next, cursor.next)


def fed(feeds: list[Feed], submit: Callable[[], AnyRun]) -> AnyRun:
    """Start the streams that a run reads, then submit and return the run. Raises Conflict and ``submit``'s errors."""
    if not feeds:
        return submit()
    started: list[Feed] = []
    try:
        for feed in feeds:
            feed.start()
            started.append(feed)
        run = submit()
    except BaseException:
        for feed in started:  # but not streams that another run is reading
            feed.close()
        raise
    run.on_state(lambda state: _follow(feeds, state))
    return run


def _follow(feeds: list[Feed], state: RunState) -> None:
    for feed in feeds:
        if state.is_final:
            feed.close(give_up=state is not RunState.SUCCEEDED)
        elif state is RunState.STOPPING:
            feed.stop()
