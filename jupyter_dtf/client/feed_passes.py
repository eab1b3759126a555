"""A stream of repeated passes over data that can be read again. Each pass starts when a task first requests it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ..backend.task.fit.sources.stream_wire import Hello, Message
from .feed_cursor import Cursor
from .feed_window import Batch
from .feeding import Feed


class Rereadable(Protocol):
    """Data that can be read any number of times."""

    length: int
    """The number of batches in a pass; negative if it is unknown or infinite."""
    draws: bool
    """Whether reading the same pass again may yield different batches."""

    def begin(self, number: int, *, in_parts: bool, count: int | None) -> Iterator[Batch]:
        """Start pass ``number``, from 0, of which ``count`` batches will be read (None: all).

        ``in_parts``: whether the pass spans several epochs.
        """


class PassesFeed(Feed):
    """A feed whose batches are numbered across all passes, as if they were one stream."""

    def __init__(self, name: str, secret: str, what: str, passes: Rereadable, *, trains: bool) -> None:
        super().__init__(name, secret, what, iter(()), lambda: None, trains=trains)
        self._passes = passes
        self._begins: dict[int, int] = {}
        """The position at which each pass started, keyed by the number of the pass."""
        self._ends: dict[int, int] = {}
        """The position at which each pass ends, keyed by the position at which it started."""
        self._start = 0
        """The position at which the current pass started."""
        self._most = None
        self._wanted: tuple[int, bool, int | None] | None = None
        """The pass to start next, as arguments of ``Rereadable.begin``; None if no pass has been requested."""
        self._count: int | None = None
        self._has_told = False
        """Whether a task has been notified that the data is shuffled differently."""

    @property
    def _is_wanted(self) -> bool:
        return bool(self._begins) and self._start not in self._ends

    def _next(self) -> Batch | None:
        with self._lock:
            wanted, self._wanted, self._read_turn = self._wanted, None, self._turn
        if wanted is not None:
            number, in_parts, count = wanted
            self._batches = self._passes.begin(number, in_parts=in_parts, count=count)
        return super()._next()

    def _take(self, batch: Batch | None, failure: BaseException | None) -> None:
        if batch is not None or failure is not None:
            super()._take(batch, failure)
        if batch is None or self._window.count - self._start == self._count:
            self._ends[self._start] = self._window.count

    def _number(self, place: int) -> int:
        return place - self._start

    def _end_for(self, cursor: Cursor) -> int | None:
        end = None if self.failure is not None else self._ends.get(cursor.start)
        return end if cursor.until is None else cursor.until if end is None else min(end, cursor.until)

    def _gone(self, number: int) -> Message:
        return Message(
            error=(
                f"Training would continue with a batch of {self.what} that is no longer kept, and reading the data "
                "again would shuffle it differently. Write checkpoints more often (dtf.Checkpoint(every_steps=...)), "
                "so that fewer batches have to be read again"
            ),
            is_input=True,
        )

    def _peek(self, cursor: Cursor, count: int) -> None:
        """Let a task that requested only the first ``count`` batches read them from the first pass."""
        if not self._begins:
            self._begin(0, in_parts=False, count=None)
        cursor.start = 0
        cursor.until = min(count, self._window.heads)

    def _place(self, cursor: Cursor, hello: Hello) -> str:
        number, within = hello.passes + hello.again, hello.passed + hello.within
        begun = self._begins.get(number)
        is_next = begun is None and number > max(self._begins, default=-1)
        if is_next and self._begins and self._start not in self._ends and not self._stops:
            return f"A task requested pass {number + 1} over {self.what} before the previous pass had ended"
        if begun is None or not self._window.has(begun + within):
            is_again = not is_next and self._passes.draws
            # A pass that no task has used yet may have any order, but the order must be the same for all tasks.
            if is_again and (within or self._is_read(begun, hello)):
                return self._gone(0).error
            if is_again and not self._has_told:
                self._has_told = True
                cursor.note = f"{self.what[:1].upper()}{self.what[1:]} is shuffled differently for a restarted epoch"
            self._begin(number, in_parts=hello.in_parts, count=hello.only or None)
        cursor.start = self._begins[number]
        cursor.next = cursor.start + within
        self._seat(cursor, hello)
        return ""

    def _is_read(self, begun: int | None, hello: Hello) -> bool:
        """Return whether another current task is reading the pass that started at ``begun``."""
        living = [rank for rank, each in self._cursors.items() if each.peer is not None and each.start == begun]
        return hello.size == self._size and any(rank != hello.rank for rank in living)

    def _begin(self, number: int, *, in_parts: bool, count: int | None) -> None:
        """Start reading a pass at the current end of the stream."""
        length = self._passes.length
        self._turn += 1
        self._start = self._window.count
        # A pass that was not read to its end, because training went back to an earlier position, is read again from its
        # beginning.
        self._begins = {n: start for n, start in self._begins.items() if start in self._ends}
        self._begins[number] = self._start
        self._ends.pop(self._start, None)  # an empty previous pass may have left an entry
        self._wanted = number, in_parts, count
        self._count = length if length >= 0 and (count is None or count > length) else count
        self._lock.notify_all()
