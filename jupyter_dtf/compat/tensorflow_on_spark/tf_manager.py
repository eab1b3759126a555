"""``ctx.mgr``: the named queues and the state of a node, as in TensorFlowOnSpark's manager.

Other processes on the machine feed pieces of partitions through the task's inlet (``backend/task/feed/inlet.py``), and
a queue returns them item by item. Without an inlet, a queue only contains items that are put into it in this process.
"""

from __future__ import annotations

import queue as queues
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ...backend.task.feed.inlet import Inlet
from ...errors import InvalidInput
from . import feed_words as words

_LOOK_S = 0.2
"""The interval, in seconds, at which a queue checks whether the run should stop, while no items arrive."""


class EndPartition:
    """The end of a partition in a queue.

    Used only for items that a program puts into a queue; fed pieces mark their last item.
    """


class Fed(NamedTuple):
    """An item of a queue. ``partition`` is the number of the partition that ends with this item, or -1."""

    item: Any
    partition: int = -1


class FeedQueue:
    """A named queue with ``get``, ``task_done``, ``join``, ``put``, ``empty`` and ``qsize``, like ``queue.Queue``."""

    def __init__(self, name: str, manager: TFManager) -> None:
        self._name = name
        self._manager = manager
        self._items: deque[Fed] = deque()
        self._unfinished = 0
        self._ends: deque[int] = deque()
        self._changed = threading.Condition()
        self._fetching = threading.Lock()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item. Items of ``output`` are sent to the process that feeds this node; others stay here."""
        if self._manager.inlet is not None and self._name == words.OUTPUT:
            self._manager.inlet.give(self._name, item)
        else:
            self._add([Fed(item)])

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the next item, or None at the end of the feed. Raises ``queue.Empty`` after the timeout."""
        return self.take(block, timeout).item

    def take(self, block: bool = True, timeout: float | None = None) -> Fed:
        """Return the next item as ``get`` does, with the number of the partition that ends with it, or -1.

        Raises ``queue.Empty``, and ConnectionError if the process that feeds this node has died.
        """
        inlet = self._manager.inlet
        while True:
            with self._changed:
                if self._items:
                    fed = self._items.popleft()
                    if fed.partition >= 0:
                        self._ends.append(fed.partition)
                    return fed
                if inlet is None or self._name == words.OUTPUT:
                    if not self._changed.wait_for(lambda: bool(self._items), timeout if block else 0):
                        raise queues.Empty
                    continue
            with self._fetching:  # pieces are added in the order of their arrival
                if not self.empty():
                    continue
                self._fetch(inlet, block, timeout)

    def _fetch(self, inlet: Inlet, block: bool, timeout: float | None) -> None:
        while True:
            if self._manager.is_stopping:
                self._add([Fed(None)])
                return
            wait_s = 0.0 if not block else _LOOK_S if timeout is None else min(timeout, _LOOK_S)
            try:
                piece = inlet.get(self._name, wait_s)
            except queues.Empty:
                if not block:
                    raise
                if timeout is not None:
                    timeout -= wait_s
                    if timeout <= 0:
                        raise
                continue
            except EOFError:
                self._add([Fed(None)])
                return
            self._add(_items_of(piece))
            return

    def _add(self, items: Iterable[Fed]) -> None:
        with self._changed:
            before = len(self._items)
            self._items.extend(items)
            self._unfinished += len(self._items) - before
            self._changed.notify_all()

    def task_done(self) -> None:
        """Mark an item as processed. After the last item of a partition, the process that has fed it is notified."""
        with self._changed:
            if self._unfinished <= 0:
                raise ValueError("task_done() must not be called more times than there were items")
            self._unfinished -= 1
            ended = self._ends.popleft() if self._ends else -1
            self._changed.notify_all()
        if ended >= 0 and self._manager.inlet is not None:
            self._manager.inlet.give(words.consumed(self._name), ended)

    def join(self) -> None:
        """Wait until all items have been processed."""
        with self._changed:
            self._changed.wait_for(lambda: self._unfinished == 0)

    def empty(self) -> bool:
        """Return whether no item is queued at the moment."""
        return self.qsize() == 0

    def qsize(self) -> int:
        """Return the number of queued items."""
        with self._changed:
            return len(self._items)

    def drop(self) -> int:
        """Drop queued items, and reject further ones. Returns the number of dropped items."""
        if self._manager.inlet is not None:
            self._manager.inlet.refuse(self._name)
        with self._changed:
            dropped = len(self._items)
            self._items.clear()
            self._ends.clear()
            self._unfinished = 0
            self._changed.notify_all()
        return dropped


def _items_of(piece: words.Piece) -> list[Fed]:
    items = [Fed(item) for item in piece.items]
    if piece.is_last:
        items[-1] = items[-1]._replace(partition=piece.partition)
    return items


class TFManager:
    """Named queues, and values stored by key. The event ``stop`` is set when the run should stop."""

    def __init__(self, names: Sequence[str], inlet: Inlet | None = None, stop: threading.Event | None = None) -> None:
        self.inlet = inlet
        self._stop = stop
        self._queues = {name: FeedQueue(name, self) for name in names}
        self._values: dict[str, Any] = {"state": "running"}
        self.items_read = 0
        """The number of items read by ``DataFeed.next_batch``."""
        self.results_given = 0

    @property
    def is_stopping(self) -> bool:
        """Whether the run has been requested to stop."""
        return self._stop is not None and self._stop.is_set()

    def get_queue(self, qname: str) -> FeedQueue:
        """Return the queue with that name. Raises InvalidInput if the cluster was started without it."""
        try:
            return self._queues[qname]
        except KeyError:
            raise InvalidInput(f"`qname` must be one of {', '.join(self._queues)}, got {qname!r}") from None

    def get(self, key: str) -> Any:
        """Return the value for a key. Raises KeyError if there is none."""
        return self._values[key]

    def set(self, key: str, value: Any) -> None:
        """Set the value for a key. The key ``state`` has the values running, terminating and stopped."""
        self._values[key] = value

    def terminate(self, name: str) -> None:
        """Accept no more data in a queue: notify feeding processes, and drop queued items. Other queues continue."""
        self.set("state", "terminating")
        if self.inlet is not None:
            words.leave(self.inlet.path, words.Standing("terminating"), name)
            self.inlet.end_results(words.consumed(name))
        self._queues[name].drop()

    def refuse_all(self, standing: words.Standing) -> None:
        """Notify processes that feed this node, or wait for its results, that it has ended with this ``standing``."""
        assert self.inlet is not None
        before = words.left(self.inlet.path)
        if before is None or before.state != "behind":  # being behind may be why it failed
            words.leave(self.inlet.path, standing)
        self.inlet.end_results(words.OUTPUT)
        for name, queue in self._queues.items():
            self.inlet.end_results(words.consumed(name))
            queue.drop()


def start(authkey: bytes, queues: Sequence[str], mode: str = "local") -> TFManager:
    """Create a manager with these queues for this process. ``authkey`` is unused, as no other process can connect.

    Raises InvalidInput for ``mode="remote"``.
    """
    if mode != "local":
        raise InvalidInput(f'`mode` must be "local", because a manager exists only in its own process, got {mode!r}')
    return TFManager(queues)
