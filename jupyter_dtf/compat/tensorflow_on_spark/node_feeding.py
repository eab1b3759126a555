"""In Dask's workers: partitions are pushed to the nodes of the same machine.

A node is fed by one process at a time: whoever has the lock beside its inlet. A node takes only what it has room for,
so a partition may take as long as the training does, and whoever feeds gives its thread back to Dask meanwhile
(``secede``): threads that all feed would leave none for the partitions that are still to be computed, and nodes that
wait for each other need to be fed at the same time.
"""

from __future__ import annotations

import fcntl
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
"""What items are sent together, about."""
_MOST_ITEMS = 4096
_LOOK_S = 0.01
FED, DROPPED, ENDED = "fed", "dropped", "ended"
"""What has become of a partition: consumed; not wanted any more; not wanted, as the node's program is over."""


class Unfed(Conflict):
    """A partition could not be fed to its end. The message says which, to whom and why."""


class Gone(Unfed):
    """Nobody is there to be fed: the run has ended, on this machine at least."""


class Place:
    """Where the nodes of a run are found on any of its machines. It travels."""

    def __init__(self, token: str, run_id: str) -> None:
        self.token = token
        self.run_id = run_id

    @property
    def shared(self) -> Path:
        """What the tasks of the run share on this machine."""
        return paths.shared_memory_dir(self.token) / self.run_id

    def inlet(self, task: str) -> Path:
        """The inlet of a node on this machine."""
        return feed_wire.inlet_path(self.shared, task)


def listening(place: Place, tasks: Sequence[str], timeout_s: float) -> None:
    """Wait until these nodes of this machine listen, or have ended. Raises Unfed after the time."""
    ends = time.monotonic() + timeout_s
    for task in tasks:
        while not _is_or_was_here(place.inlet(task)) and place.shared.is_dir():
            if time.monotonic() > ends:
                raise Unfed(f"{task} does not listen {timeout_s:g} s after it was started")
            time.sleep(_LOOK_S)  # nobody tells that a socket has appeared


def train(items: Any, number: int, place: Place, task: str, queue: str, timeout_s: float) -> str:
    """Feed a partition to a node of this machine, and wait until it has consumed it. Returns what became of it.

    Raises RunFailed with the node's traceback, Unfed if it does not consume it in time or has gone,
    Gone if the run has ended.
    """
    _give_thread_back()
    with _turn(place.inlet(task)):
        return _feed(_listed(items), number, place.inlet(task), task, queue, timeout_s)[0]


def infer(
    items: Any, number: int, place: Place, tasks: Sequence[str], addresses: Sequence[str], queue: str, timeout_s: float
) -> list[Any]:
    """Feed a partition to whichever node of this machine is free: one result for each item, in order.

    From a machine without a node it goes on to the Dask workers at ``addresses``. Raises RunFailed, Unfed.
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
        raise Unfed(f"The partition {number} got no results: the program of {task} wants no more data")
    return results


def end(place: Place, task: str, queues: Iterable[str]) -> None:
    """Tell a node of this machine that nothing more comes. One that has ended need not be told."""
    with suppress(ConnectionError), Outlet(place.inlet(task)) as outlet:
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
        why = " or has given fewer results than it has items" if wants_results else ""
        text = (
            f"feed_timeout: {task} has not consumed the partition {number} ({len(rows)} items) within {timeout_s:g} s"
            f"{why}"
        )
        # What it still gives would be taken for the next partition's results.
        words.leave(inlet, words.Standing("behind", text))
        raise Unfed(text) from None
    except ConnectionError as error:
        if words.left(inlet, queue) is not None:
            return _ended(inlet, number, task, queue), []
        raise _lost(inlet)(f"The partition {number} could not be fed: {task} has gone ({error})") from None


def _ended(inlet: Path, number: int, task: str, queue: str) -> str:
    standing = words.left(inlet, queue)
    if standing is None:
        raise _lost(inlet)(f"The partition {number} could not be fed: {task} takes no more data")
    if standing.state == "failed":
        raise RunFailed(f"{task} failed while it was fed", task=task, traceback=standing.text)
    if standing.state == "behind":
        raise Unfed(f"The partition {number} was not fed after another one. {standing.text}")
    return ENDED if standing.state == "ended" else DROPPED


def _lost(inlet: Path) -> type[Unfed]:
    """What it means that a node has gone and left no word: its run's directory goes when the run has ended."""
    return Unfed if inlet.parent.parent.is_dir() else Gone


def _too_few(results: int, items: int, number: int, task: str) -> str:
    return (
        f"batch_results() must be given one result for each item, got {results} for the {items} items of the "
        f"partition {number} on {task}"
    )


def _connected(inlet: Path, timeout_s: float) -> Outlet:
    """A connection to a node, which may be about to listen. Raises ConnectionError, TimeoutError."""
    ends = time.monotonic() + timeout_s
    while True:
        try:
            return Outlet(inlet, timeout_s)
        except ConnectionError:
            # Nobody tells that a socket has appeared.
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
        raise Unfed("An item of a feed must not be None, which is the end of the feed")
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
        raise Unfed(f"The partition {number} could not be fed: the run has ended")
    with worker_client() as client:  # it secedes
        future = client.submit(
            infer, rows, number, place, tasks, addresses, queue, timeout_s, workers=list(addresses), pure=False
        )
        results: list[Any] = future.result()
        return results


def _is_or_was_here(inlet: Path) -> bool:
    return inlet.exists() or words.left(inlet) is not None


@contextmanager
def _turn(inlet: Path) -> Iterator[None]:
    """The right to feed a node: a lock that goes with the process which holds it."""
    with _lock_of(inlet) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _any_turn(nodes: dict[str, Path]) -> Iterator[str]:
    """The right to feed one of some nodes, the first that is free."""
    with ExitStack() as stack:
        locks = {task: stack.enter_context(_lock_of(inlet)) for task, inlet in nodes.items()}
        while True:
            for task, lock in locks.items():
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield task
                    return
            time.sleep(_LOOK_S)  # one cannot wait for the first of several locks


def _lock_of(inlet: Path) -> Any:
    """Where a run has ended there is no directory of it any more, and nobody to feed. Raises Gone."""
    try:
        return inlet.with_suffix(".turn").open("w")
    except FileNotFoundError:
        raise Gone("Nobody takes the data: the run has ended") from None


def _give_thread_back() -> None:
    from distributed import get_worker, secede

    try:
        get_worker()
    except ValueError:
        raise Unavailable(
            "The nodes are fed by the Dask workers of their cluster: compute with its client, as in "
            "bag.compute(scheduler=tf_cluster.client)"
        ) from None
    secede()
