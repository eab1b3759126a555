"""Feeds partitions from Dask's workers to the nodes on the same machine.

A node is fed by one process at a time, which holds the lock file next to the node's inlet. A node accepts only as much
data as it can hold, so feeding a partition may take as long as training on it. Meanwhile, the thread is returned to
Dask (``secede``): if all threads were feeding, none would be left for partitions that have not been computed yet, and
nodes that wait for each other must be fed at the same time.
"""

from __future__ import annotations

import fcntl
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ...backend.machine import paths
from ...backend.machine.feed_outlet import Outlet
from ...errors import Conflict, RunFailed, Unavailable
from ...schema import feed_wire, payload
from . import feed_words as words

PIECE_BYTES = 1 << 20
"""The approximate total size of the items that are sent together."""
_MOST_ITEMS = 4096
_LOOK_S = 0.01
FED, DROPPED, ENDED = "fed", "dropped", "ended"
"""The outcomes of a partition: consumed; no longer needed; not needed because the node's program has ended."""


class FeedError(Conflict):
    """Raised if a partition could not be fed completely. The message gives the partition, the node and the reason."""


class Gone(FeedError):
    """Raised if there is no node to feed, because the run has ended, at least on this machine."""


class Place:
    """Finds the inlets of a run's nodes on the machine on which it is used. Picklable."""

    def __init__(self, token: str, run_id: str) -> None:
        self.token = token
        self.run_id = run_id

    @property
    def shared(self) -> Path:
        """The directory that the tasks of the run share on this machine."""
        return paths.shared_memory_dir(self.token) / self.run_id

    def inlet(self, task: str) -> Path:
        """Return the inlet of a node on this machine."""
        return feed_wire.inlet_path(self.shared, task)


def listening(place: Place, tasks: Sequence[str], timeout_s: float) -> None:
    """Wait until these nodes on this machine listen or have ended. Raises FeedError after ``timeout_s`` seconds."""
    ends = time.monotonic() + timeout_s
    for task in tasks:
        while not _is_or_was_here(place.inlet(task)) and place.shared.is_dir():
            if time.monotonic() > ends:
                raise FeedError(f"{task} did not start to listen within {timeout_s:g} s")
            time.sleep(_LOOK_S)  # there is no notification when a socket appears


def train(items: Any, number: int, place: Place, task: str, queue: str, timeout_s: float) -> str:
    """Feed a partition to a node on this machine, and wait until the node has consumed it. Returns the outcome.

    Raises RunFailed with the node's traceback, FeedError if the node is lost or does not consume the partition in time,
    and Gone if the run has ended.
    """
    _give_thread_back()
    with _turn(place.inlet(task)):
        return _feed(_listed(items), number, place.inlet(task), task, queue, timeout_s)[0]


def infer(
    items: Any, number: int, place: Place, tasks: Sequence[str], addresses: Sequence[str], queue: str, timeout_s: float
) -> list[Any]:
    """Feed a partition to any free node on this machine. Returns one result for each item, in order.

    On a machine without a node, the partition is passed on to the Dask workers at ``addresses``. Raises RunFailed or
    FeedError.
    """
    rows = _listed(items)
    if not rows:
        return []
    here = [task for task in tasks if place.inlet(task).parent.is_dir() and _is_or_was_here(place.inlet(task))]
    if not here:
        return _elsewhere(rows, number, place, tasks, addresses, queue, timeout_s)
    with _any_turn({task: place.inlet(task) for task in here}) as task:
        _give_thread_back()
        outcome, results = _feed(rows, number, place.inlet(task), task, queue, timeout_s, wants_results=True)
    if outcome is not FED:
        raise FeedError(f"Partition {number} has no results, because the program of {task} accepts no more data")
    return results


def end(place: Place, task: str, queues: Iterable[str], timeout_s: float) -> None:
    """Notify a node on this machine that its feed has ended, unless the node itself has ended.

    A node that has only just started may not listen yet: this waits for it, for at most ``timeout_s`` seconds.
    """
    with suppress(ConnectionError), _connected(place.inlet(task), timeout_s) as outlet:
        for queue in queues:
            outlet.end(queue)


def _feed(
    rows: list[Any], number: int, inlet: Path, task: str, queue: str, timeout_s: float, wants_results: bool = False
) -> tuple[str, list[Any]]:
    if words.left(inlet, queue) is not None:
        return _ended(inlet, number, task, queue), []
    ends = time.monotonic() + timeout_s
    try:
        with ExitStack() as stack:
            outlet = stack.enter_context(_connected(inlet, timeout_s))
            outlet.give_up_at(ends)
            for piece in _pieces(rows, number):
                if not outlet.put(queue, piece):
                    return _ended(inlet, number, task, queue), []
            while rows and (consumed := outlet.take(words.consumed(queue), 1)) != [number]:
                if not consumed:
                    return _ended(inlet, number, task, queue), []
            results = outlet.take(words.OUTPUT, len(rows)) if wants_results else []
            if wants_results and len(results) < len(rows):
                _ended(inlet, number, task, queue)
                raise AssertionError(_too_few(len(results), len(rows), number, task))
            return FED, results
    except TimeoutError:
        why = ", or has returned fewer results than there are items" if wants_results else ""
        text = (
            f"feed_timeout: {task} has not consumed partition {number} ({len(rows)} items) within {timeout_s:g} s{why}"
        )
        # Later results would be mistaken for those of the next partition.
        words.leave(inlet, words.Standing("behind", text))
        raise FeedError(text) from None
    except ConnectionError as error:
        if words.left(inlet, queue) is not None:
            return _ended(inlet, number, task, queue), []
        raise _lost(inlet)(f"Partition {number} could not be fed, because {task} is gone ({error})") from None


def _ended(inlet: Path, number: int, task: str, queue: str) -> str:
    standing = words.left(inlet, queue)
    if standing is None:
        raise _lost(inlet)(f"Partition {number} could not be fed, because {task} accepts no more data")
    if standing.state == "failed":
        raise RunFailed(f"{task} failed while it was fed", task=task, traceback=standing.text)
    if standing.state == "behind":
        raise FeedError(f"Partition {number} was not fed, because an earlier partition failed. {standing.text}")
    return ENDED if standing.state == "ended" else DROPPED


def _lost(inlet: Path) -> type[FeedError]:
    """Return the class of the error for a node that has disappeared without a message.

    The directory of a run is removed when the run has ended.
    """
    return FeedError if inlet.parent.parent.is_dir() else Gone


def _too_few(results: int, items: int, number: int, task: str) -> str:
    return (
        f"batch_results() must be given one result for each item, got {results} for the {items} items of "
        f"partition {number} on {task}"
    )


def _connected(inlet: Path, timeout_s: float) -> Outlet:
    """Connect to a node, which may not listen yet. Raises ConnectionError or TimeoutError."""
    ends = time.monotonic() + timeout_s
    while True:
        try:
            return Outlet(inlet, None if math.isinf(timeout_s) else timeout_s)
        except ConnectionError:
            # There is no notification when a socket appears.
            if words.left(inlet) is not None or _lost(inlet) is Gone or time.monotonic() > ends:
                raise
        time.sleep(_LOOK_S)


def _pieces(rows: list[Any], number: int) -> Iterator[words.Piece]:
    if not rows:
        return
    count = min(max(PIECE_BYTES // max(payload.packed(rows[0]).size, 1), 1), _MOST_ITEMS)
    for begin in range(0, len(rows), count):
        yield words.Piece(number, rows[begin : begin + count], begin + count >= len(rows))


def _listed(items: Any) -> list[Any]:
    rows = list(items)
    if any(row is None for row in rows):
        raise FeedError("An item of a feed must not be None, which marks the end of the feed")
    return rows


def _elsewhere(
    rows: list[Any],
    number: int,
    place: Place,
    tasks: Sequence[str],
    addresses: Sequence[str],
    queue: str,
    timeout_s: float,
) -> list[Any]:
    from distributed import get_worker, worker_client

    if get_worker().address in addresses:
        raise FeedError(f"Partition {number} could not be fed, because the run has ended")
    with worker_client() as client:  # this calls secede
        future = client.submit(
            infer, rows, number, place, tasks, addresses, queue, timeout_s, workers=list(addresses), pure=False
        )
        results: list[Any] = future.result()
        return results


def _is_or_was_here(inlet: Path) -> bool:
    return inlet.exists() or words.left(inlet) is not None


@contextmanager
def _turn(inlet: Path) -> Iterator[None]:
    """Hold the lock for feeding a node. It is released if the process that holds it dies."""
    with _lock_of(inlet) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _any_turn(nodes: dict[str, Path]) -> Iterator[str]:
    """Hold the lock for feeding one of several nodes, the first with a free lock. Yield the node's task."""
    with ExitStack() as stack:
        locks = {task: stack.enter_context(_lock_of(inlet)) for task, inlet in nodes.items()}
        while True:
            for task, lock in locks.items():
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield task
                    return
            time.sleep(_LOOK_S)  # waiting for the first of several locks is not possible


def _lock_of(inlet: Path) -> Any:
    """Open the lock of a node. Raises Gone if its directory no longer exists, because the run has ended."""
    try:
        return inlet.with_suffix(".turn").open("w")
    except FileNotFoundError:
        raise Gone("The data cannot be fed, because the run has ended") from None


def _give_thread_back() -> None:
    from distributed import get_worker, secede

    try:
        get_worker()
    except ValueError:
        raise Unavailable(
            "Nodes are fed by the Dask workers of their cluster. Compute with the cluster's client, as in "
            "bag.compute(scheduler=tf_cluster.client)"
        ) from None
    secede()
