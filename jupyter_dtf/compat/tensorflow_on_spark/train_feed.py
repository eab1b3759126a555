"""Sends every partition of every epoch to a node that accepts it, for ``TFCluster.train``."""

from __future__ import annotations

import queue as queues
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import node_feeding
from .node_feeding import Place

if TYPE_CHECKING:
    from distributed import Client, Future

_AHEAD = 2
"""The number of partitions in progress per node: while the node consumes one, the next is computed."""


class TrainFeed:
    """Feeds partitions to nodes. ``hosts`` has the Dask worker that can feed each node, keyed by the node's task.

    ``has_ended()`` returns whether the run has ended. ``subscribe(callback)`` subscribes a callback to changes, and
    returns a function that unsubscribes it.
    """

    def __init__(
        self,
        client: Client,
        place: Place,
        hosts: Mapping[str, str],
        has_ended: Callable[[], bool],
        subscribe: Callable[[Callable[[], None]], Callable[[], None]],
    ) -> None:
        self._client = client
        self._place = place
        self._hosts = dict(hosts)
        self._has_ended = has_ended
        self._subscribe = subscribe

    def feed(self, partitions: Iterator[tuple[int, Any]], queue: str, timeout_s: float) -> bool:
        """Feed partitions, given as ``(number, delayed partition)``, until all are consumed or no node accepts more.

        Returns whether all partitions were consumed. An error in feeding a partition is raised immediately.
        """
        events: queues.SimpleQueue[Future[Any] | None] = queues.SimpleQueue()
        leave = self._subscribe(lambda: events.put(None))
        flying: dict[Any, tuple[str, Future[Any]]] = {}
        load: Counter[str] = Counter()
        wanting = set(self._hosts)
        was_dropped = False
        try:
            while True:
                while wanting and (task := min(sorted(wanting), key=lambda name: load[name])):
                    if load[task] >= _AHEAD or (following := next(partitions, None)) is None:
                        break
                    future = self._begin(*following, task, queue, timeout_s)
                    flying[future.key] = (task, future)
                    load[task] += 1
                    future.add_done_callback(events.put)
                if not flying:
                    return not was_dropped
                done = events.get()
                if done is None:
                    if self._has_ended() and any(not future.done() for _, future in flying.values()):
                        return False
                    continue
                task, future = flying.pop(done.key)
                load[task] -= 1
                if future.result() != node_feeding.FED:
                    wanting.discard(task)
                    was_dropped = True
        finally:
            leave()
            self._client.cancel([future for _, future in flying.values()])

    def _begin(self, number: int, partition: Any, task: str, queue: str, timeout_s: float) -> Future[Any]:
        """Start sending a partition to a node. It is computed where Dask chooses, then moved to the node's machine."""
        computed = self._client.compute(partition)
        return self._client.submit(
            node_feeding.train,
            computed,
            number,
            self._place,
            task,
            queue,
            timeout_s,
            workers=[self._hosts[task]],
            pure=False,
        )
