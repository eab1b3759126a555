"""Who takes part in a collective: process sets, each with a reducer, and the order of its calls."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import tensorflow as tf

from ....errors import InvalidInput
from ..context import current
from . import make_reducer
from .calls import differ
from .contract import Reducer
from .program_order import ProgramOrder, in_graph


class ProcessSet:
    """Some of the tasks of the run, by rank: the collectives of ``process_set=ProcessSet([0, 2])`` are between those.

    Two of equal ranks are the same set. Raises InvalidInput unless the ranks are different ones, at least one.
    """

    def __init__(self, ranks: Sequence[int]) -> None:
        self.ranks = tuple(sorted(int(rank) for rank in ranks))
        if not self.ranks or len(set(self.ranks)) < len(self.ranks) or self.ranks[0] < 0:
            raise InvalidInput(
                f"A process set has at least one rank, each once. Received: {list(ranks)}", field="ranks"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProcessSet) and self.ranks == other.ranks

    def __hash__(self) -> int:
        return hash(self.ranks)

    def __repr__(self) -> str:
        return f"ProcessSet({list(self.ranks)})"

    def size(self) -> int:
        """How many tasks it has."""
        return len(self.ranks)

    def included(self) -> bool:
        """Whether this task is one of them."""
        return current().rank in self.ranks

    def rank(self) -> int:
        """This task's place among them, from 0. Raises InvalidInput if it is none of them."""
        return communicator(self).reducer.rank


class Communicator:
    """The reducer of one process set, and the order in which a ``tf.function`` runs its collectives."""

    def __init__(self, ranks: Sequence[int], reducer: Reducer) -> None:
        self.ranks = tuple(ranks)
        self.reducer = reducer
        self._order = ProgramOrder()
        self._in_graphs: WeakKeyDictionary[tf.Graph, int] = WeakKeyDictionary()

    @property
    def size(self) -> int:
        return self.reducer.size

    @property
    def rank(self) -> int:
        return self.reducer.rank

    def root(self, rank: int) -> int:
        """Where in the set the task of that rank of the run is. Raises InvalidInput if it is not there."""
        if rank not in self.ranks:
            raise InvalidInput(
                f"`root_rank` must be one of the ranks {list(self.ranks)}, got {rank}", field="root_rank"
            )
        return self.ranks.index(rank)

    def named(self, name: str) -> str:
        """The name; in a graph of TensorFlow 1, with a number that no other collective in it has.

        Those meet by name. The tasks build their graphs alike, so they give the same one the same number.
        """
        if not in_graph():
            return name
        graph = tf.compat.v1.get_default_graph()
        while getattr(graph, "outer_graph", None) is not None:
            graph = graph.outer_graph
        number = self._in_graphs.get(graph, 0) + 1
        self._in_graphs[graph] = number
        return f"{number}: {name}"

    def in_order(self, collective: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        """Call ``collective``, a reducer's; in a ``tf.function`` its ops come after those called before it."""
        return collective() if self.reducer.keeps_order else self._order(collective)


_communicators: dict[tuple[int, ...], Communicator] = {}
_lock = threading.RLock()


def communicator(process_set: ProcessSet | None = None) -> Communicator:
    """That of the process set, None being all tasks of the run, made when it is first asked for.

    Making one is a collective of its tasks. Raises RuntimeError outside a task.
    """
    ctx = current()
    ranks = tuple(range(ctx.size)) if process_set is None else tuple(process_set.ranks)
    with _lock:
        if ranks not in _communicators:
            with tf.init_scope():
                _communicators[ranks] = Communicator(ranks, make_reducer("auto", ctx, ranks))
        return _communicators[ranks]


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Make the communicator of a process set; a collective of all tasks of the run, also of those not in the set.

    But for TensorFlow's own collectives this is not needed: a process set is made when it is first used.
    """
    process_set = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    _all_do("add_process_set", process_set)
    if process_set.included():
        communicator(process_set)
    return process_set


def remove_process_set(process_set: ProcessSet) -> None:
    """Free what the process set needs; a collective of all tasks of the run. It is made anew if it is used again."""
    _all_do("remove_process_set", process_set)
    with _lock:
        made = _communicators.pop(tuple(process_set.ranks), None)
    if made is not None:
        made.reducer.close()


def _all_do(what: str, process_set: ProcessSet) -> None:
    ranks = [list(each) for each in communicator().reducer.all_gather(tuple(process_set.ranks))]
    if any(each != ranks[0] for each in ranks):
        raise differ({task: f"{what}({each})" for task, each in zip(current().tasks, ranks, strict=True)})


def interrupted() -> bool:
    """Whether a task has left as failed while this one waited for it in a collective."""
    with _lock:
        return any(made.reducer.interrupted for made in _communicators.values())


def renew() -> None:
    """Begin anew in all process sets; the others, whose collectives fail by it, do the same.

    Functions that have been traced go on working. Raises Unavailable for TensorFlow's own collectives.
    """
    with _lock:
        for ranks in sorted(_communicators):
            _communicators[ranks].reducer.renew()
    current().peer_lost = False


def close() -> None:
    """Leave all process sets: a task that waits for this one gets an error."""
    with _lock:
        for made in _communicators.values():
            made.reducer.close()
        _communicators.clear()


atexit.register(close)
