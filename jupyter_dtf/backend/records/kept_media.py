"""Keeps a bounded amount of a run's media: histograms, images, text items and tables. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TypeVar

from ...errors import NotFound
from ...schema.events import Histogram, MediaEvent, Picture, ReportedTable, ReportedText, media_bytes
from ...schema.media import MediaSeries

MOST_BYTES = 16 << 20
"""The maximum size of the items kept in memory per run: a viewer may have a dozen runs. The run's log has all items."""
MOST_OF_ONE = 400
"""The maximum number of items kept for one name of one task: as many as a plot has columns."""
_BYTES = 400
"""The memory that an item takes in addition to its contents."""

One = TypeVar("One", Picture, ReportedText, ReportedTable)

Key = tuple[str, str, str]
"""The kind, the name and the task of an item."""


class _Kept:
    """The items kept for one name of one task: every nth item that has arrived, and the newest item."""

    def __init__(self, attempt: int) -> None:
        self.attempt = attempt
        self.bytes = 0
        self._came = 0
        self._every = 1
        self._numbered: list[tuple[int, MediaEvent]] = []

    @property
    def events(self) -> list[MediaEvent]:
        return [event for _, event in self._numbered]

    def __len__(self) -> int:
        return len(self._numbered)

    def add(self, event: MediaEvent) -> None:
        if self._numbered and self._numbered[-1][0] % self._every:
            self.bytes -= _size(self._numbered.pop()[1])  # this item was kept only because it was the newest
        self._numbered.append((self._came, event))
        self._came += 1
        self.bytes += _size(event)

    def thin(self) -> None:
        """Drop every second item, but never the newest."""
        self._every *= 2
        newest = self._numbered[-1][0]
        self._put([item for item in self._numbered if item[0] % self._every == 0 or item[0] == newest])

    def drop_oldest(self) -> None:
        self._put(self._numbered[1:])

    def begin_again(self, attempt: int, step: float) -> None:
        """Begin a later attempt. From ``step`` on, its first step, its items replace all kept items."""
        self.attempt = attempt
        self._put([item for item in self._numbered if item[1].step < step])

    def _put(self, numbered: list[tuple[int, MediaEvent]]) -> None:
        self._numbered = numbered
        self.bytes = sum(_size(event) for _, event in numbered)


class KeptMedia:
    """The kept items, keyed by kind, name and task.

    Above ``MOST_BYTES``, every second item of the largest series is dropped, but never the newest. If there are so many
    names that each has at most two items, the older item of each is dropped, then whole names, least recently reported
    first. From the first step of a later attempt on, its items replace all earlier ones, as points do.
    """

    def __init__(self) -> None:
        self._kept: dict[Key, _Kept] = {}
        self._bytes = 0

    def add(self, event: MediaEvent) -> None:
        if isinstance(event, Picture) and not event.png:
            return  # a placeholder for an item that was dropped on the way
        key = _kind(event), event.name, event.task
        kept = self._kept.get(key) or _Kept(event.attempt)
        if event.attempt < kept.attempt:
            return  # late: a later attempt has replaced this one
        self._kept.pop(key, None)
        self._kept[key] = kept  # the dictionary is ordered by the last report
        before = kept.bytes
        if event.attempt > kept.attempt:
            kept.begin_again(event.attempt, event.step)
        kept.add(event)
        if len(kept) > MOST_OF_ONE:
            kept.thin()
        self._bytes += kept.bytes - before
        if self._bytes > MOST_BYTES:
            self._make_room(MOST_BYTES - MOST_BYTES // 8)  # more than needed, so that this is rare

    def _make_room(self, most_bytes: int) -> None:
        """Drop items until the rest fits in the given number of bytes, but never drop the newest item."""
        largest = [(-kept.bytes, key) for key, kept in self._kept.items() if len(kept) > 2]
        heapq.heapify(largest)
        while self._bytes > most_bytes and largest:
            _, key = heapq.heappop(largest)
            kept = self._kept[key]
            self._change(kept, kept.thin)
            if len(kept) > 2:
                heapq.heappush(largest, (-kept.bytes, key))
        for kept in self._kept.values():
            if self._bytes > most_bytes and len(kept) > 1:
                self._change(kept, kept.drop_oldest)
        for key in list(self._kept)[:-1]:
            if self._bytes > most_bytes:
                self._bytes -= self._kept.pop(key).bytes

    def _change(self, kept: _Kept, work: Callable[[], None]) -> None:
        before = kept.bytes
        work()
        self._bytes += kept.bytes - before

    def overview(self) -> list[MediaSeries]:
        """Return the names of the kept items, with their tasks and steps but without the items' contents."""
        return [
            MediaSeries(
                kind=kind,
                name=name,
                task=task,
                steps=sorted(event.step for event in self._kept[kind, name, task].events),
            )
            for kind, name, task in sorted(self._kept)
        ]

    def histograms(self, name: str, task: str) -> list[Histogram]:
        """Return a task's histograms with this name, ordered by step. Raises NotFound."""
        found = self._of("histogram", name, task)
        return sorted((event for event in found if isinstance(event, Histogram)), key=lambda event: event.step)

    def picture(self, name: str, task: str, step: float) -> Picture:
        """Return a task's last image with this name at or before ``step``. Raises NotFound."""
        return self._newest(Picture, name, task, step)

    def text(self, name: str, task: str, step: float) -> ReportedText:
        """Return a task's last text item with this name at or before ``step``. Raises NotFound."""
        return self._newest(ReportedText, name, task, step)

    def table(self, name: str, task: str, step: float) -> ReportedTable:
        """Return a task's last table with this name at or before ``step``. Raises NotFound."""
        return self._newest(ReportedTable, name, task, step)

    def _newest(self, kind: type[One], name: str, task: str, step: float) -> One:
        tag = str(kind.__struct_config__.tag)
        found = [event for event in self._of(tag, name, task) if event.step <= step]
        newest = max(reversed(found), key=lambda event: event.step, default=None)
        if not isinstance(newest, kind):
            raise NotFound(f"{task} has no {tag} {name!r:.100} at or before step {step:g}")
        return newest

    def _of(self, kind: str, name: str, task: str) -> list[MediaEvent]:
        found = self._kept.get((kind, name, task))
        if found is None:
            raise NotFound(f"There is no {kind} {name!r:.100} of {task!r:.100}")
        return found.events


def _kind(event: MediaEvent) -> str:
    return str(type(event).__struct_config__.tag)


def _size(event: MediaEvent) -> int:
    return _BYTES + media_bytes(event)
