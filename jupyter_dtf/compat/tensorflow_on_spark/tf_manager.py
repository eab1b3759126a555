"""``ctx.mgr``: the named queues of a node, and its state, as TensorFlowOnSpark's manager has them.

What is fed comes from other processes of the machine, by the task's inlet (``backend/task/feed/inlet.py``), as pieces
of partitions; a queue hands them out item by item. Without an inlet, a queue holds what is put into it here.
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
"""Between two looks whether the run is to stop, while nothing comes: stopping is no item of the feed."""


class EndPartition:
    """In a queue: the partition ends here. Only what is put by hand has these; what is fed knows its last item."""


class Fed(NamedTuple):
    """An item of a queue. ``partition`` is the number of the partition that ends with it; -1 where none does."""

    item: Any
    partition: int = -1


class FeedQueue:
    """One named queue: ``get``, ``task_done``, ``join``, ``put``, ``empty``, ``qsize``, as ``queue.Queue``."""

    def __init__(self, name: str, manager: TFManager) -> None:
        self._name = name
        self._manager = manager
        self._items: deque[Fed] = deque()
        self._unfinished = 0
        self._ends: deque[int] = deque()
        self._changed = threading.Condition()
        self._fetching = threading.Lock()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item, for whoever gets it in this process; of ``output``, for whoever has fed this node."""
        if self._manager.inlet is not None and self._name == words.OUTPUT:
            self._manager.inlet.give(self._name, item)
        else:
            self._add([Fed(item)])

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """The next item; None at the end of the feed. Raises ``queue.Empty`` after the time."""
        return self.take(block, timeout).item

    def take(self, block: bool = True, timeout: float | None = None) -> Fed:
        """The same, and whether a partition ends with it.

        Raises ``queue.Empty``, and ConnectionError if the process that fed this node has died.
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
            with self._fetching:  # pieces are added in the order in which they came
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
        """An item that was got has been taken care of; at a partition's last, whoever has fed it is told."""
        with self._changed:
            if self._unfinished <= 0:
                raise ValueError("task_done() was called more often than there were items")
            self._unfinished -= 1
            ended = self._ends.popleft() if self._ends else -1
            self._changed.notify_all()
        if ended >= 0 and self._manager.inlet is not None:
            self._manager.inlet.give(words.consumed(self._name), ended)

    def join(self) -> None:
        """Wait until all items have been taken care of."""
        with self._changed:
            self._changed.wait_for(lambda: self._unfinished == 0)

    def empty(self) -> bool:
        """Whether nothing waits here at this moment."""
        return self.qsize() == 0

    def qsize(self) -> int:
        """How many items have come and were not got."""
        with self._changed:
            return len(self._items)

    def drop(self) -> int:
        """Forget what waits, and whatever still comes. Returns how many items there were."""
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
    """Queues by their names, and values by their keys. ``stop``: set when the run is to stop."""

    def __init__(self, names: Sequence[str], inlet: Inlet | None = None, stop: threading.Event | None = None) -> None:
        self.inlet = inlet
        self._stop = stop
        self._queues = {name: FeedQueue(name, self) for name in names}
        self._values: dict[str, Any] = {"state": "running"}
        self.items_read = 0
        """By ``DataFeed.next_batch``."""
        self.results_given = 0

    @property
    def is_stopping(self) -> bool:
        """Whether somebody has asked the run to stop."""
        return self._stop is not None and self._stop.is_set()

    def get_queue(self, qname: str) -> FeedQueue:
        """The queue of that name. Raises InvalidInput if the cluster was started without it."""
        try:
            return self._queues[qname]
        except KeyError:
            raise InvalidInput(f"A queue is one of {', '.join(self._queues)}. Received: {qname!r}") from None

    def get(self, key: str) -> Any:
        """The value of a key. Raises KeyError."""
        return self._values[key]

    def set(self, key: str, value: Any) -> None:
        """Set the value of a key: ``state`` is running, terminating or stopped."""
        self._values[key] = value

    def terminate(self, name: str) -> None:
        """No more data is wanted in a queue: who feeds is told, what waits is dropped. Other queues go on."""
        self.set("state", "terminating")
        if self.inlet is not None:
            words.leave(self.inlet.path, words.Standing("terminating"), name)
            self.inlet.end_results(words.consumed(name))
        self._queues[name].drop()

    def refuse_all(self, standing: words.Standing) -> None:
        """The program has ended: whoever feeds, or waits for results, is told how."""
        assert self.inlet is not None
        before = words.left(self.inlet.path)
        if before is None or before.state != "behind":  # that is why it may have failed
            words.leave(self.inlet.path, standing)
        self.inlet.end_results(words.OUTPUT)
        for name, queue in self._queues.items():
            self.inlet.end_results(words.consumed(name))
            queue.drop()


def start(authkey: bytes, queues: Sequence[str], mode: str = "local") -> TFManager:
    """A manager with these queues, for this process: nobody else reaches it, so ``authkey`` has nothing to keep.

    Raises InvalidInput for ``mode="remote"``.
    """
    if mode != "local":
        raise InvalidInput(f'`mode` must be "local": a manager is its own process\'s alone. Received: {mode!r}')
    return TFManager(queues)
