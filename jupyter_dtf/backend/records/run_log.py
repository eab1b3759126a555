"""Keeps all events of a run in memory, encoded, with a limit on output and media. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload

import msgspec

from ...schema.events import LOG, Logged, decode_event
from . import media_tail, output_tail
from .media_tail import NOT_KEPT, MediaTail
from .output_tail import EmptiedEvents, OutputTail, Source, log_source


class RunLog(Sequence[bytes]):
    """The events of a run, indexed by sequence number.

    Only the tail of the output is kept (``OutputTail``): older output events have no lines here; the lines are in
    files. Similarly, older media items, such as images, are replaced by ``NOT_KEPT`` here, and are in the store
    (``MediaTail``).
    """

    def __init__(self) -> None:
        self._events: list[bytes] = []
        self._output = OutputTail()
        self._emptied = EmptiedEvents()
        self._media = MediaTail()
        self._taken = 0  # the archive has received the events below this number

    def __len__(self) -> int:
        return len(self._events)

    @overload
    def __getitem__(self, seq: int) -> bytes: ...
    @overload
    def __getitem__(self, seq: slice) -> list[bytes]: ...
    def __getitem__(self, seq: int | slice) -> bytes | list[bytes]:
        return self._events[seq]

    def append(self, data: bytes, *, source: Source | None = None, is_media: bool = False) -> int:
        """Add an event and return its number. ``source`` is the source of an event with output (``source_of``)."""
        seq = len(self._events)
        self._events.append(data)
        if source is not None:
            self._empty(self._output.add(seq, source, len(data)))
        if is_media:
            self._media.add(seq, len(data))
            self._empty_media()
        return seq

    def taken(self, end: int) -> None:
        """Record that the archive has all events below ``end``, so that their media need not be kept here."""
        self._taken = max(self._taken, end)
        self._empty_media()

    def end(self) -> None:
        """Keep less output and fewer media items from now on, because the run has ended."""
        self._empty(self._output.shrink(output_tail.ENDED_BYTES))
        self._media.most_bytes = media_tail.ENDED_BYTES
        self._empty_media()

    def lines_printed(self) -> dict[str, dict[str, int]]:
        """Return the number of lines printed so far as ``{task: {stream: lines}}``, as far as the log knows."""
        found: dict[str, dict[str, int]] = {}
        for data in reversed(self._events):
            if (source := source_of(data)) is not None and source[1] not in found.setdefault(source[0], {}):
                event = decode_event(data)
                if isinstance(event, Logged) and event.lines:  # the newest event of each stream still has its lines
                    found[source[0]][source[1]] = event.first + len(event.lines)
        return found

    def _empty(self, gone: Iterable[tuple[int, Source]]) -> None:
        for seq, source in gone:
            self._events[seq] = self._emptied.of(source)

    def _empty_media(self) -> None:
        for seq in self._media.shrink(self._taken):
            self._events[seq] = NOT_KEPT


def source_of(data: bytes) -> Source | None:
    """Return the task and stream of an output event, or None if it is not output that this version understands."""
    if not data.startswith(LOG, 1):
        return None
    try:
        return log_source(data)
    except msgspec.ValidationError:
        return None
