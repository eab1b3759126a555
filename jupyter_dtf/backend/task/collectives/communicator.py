"""The participants in collectives: process sets, each with a reducer and an order of calls."""

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
from .primitive import Reducer
from .program_order import ProgramOrder, in_graph


class ProcessSet:
    """A subset of the run's tasks, given by rank: ``process_set=ProcessSet([0, 2])`` restricts a collective to these.

    Sets with equal ranks are equal. Raises InvalidInput if there is no rank, or a rank occurs twice.
    """

    def __init__(self, ranks: Sequence[int]) -> None:
        self.ranks = tuple(sorted(int(rank) for rank in ranks))
        if not self.ranks or len(set(self.ranks)) < len(self.ranks) or self.ranks[0] < 0:
            raise InvalidInput(
                f"`ranks` must be at least one rank >= 0, each at most once, got {list(ranks)}", field="ranks"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProcessSet) and self.ranks == other.ranks

    def __hash__(self) -> int:
        return hash(self.ranks)

    def __repr__(self) -> str:
        return f"ProcessSet({list(self.ranks)})"

    def size(self) -> int:
        """Return the number of tasks in the set."""
        return len(self.ranks)

    def included(self) -> bool:
        """Return whether this task is in the set."""
        return current().rank in self.ranks

    def rank(self) -> int:
        """Return this task's index in the set. Raises InvalidInput if it is not in the set."""
        return communicator(self).reducer.rank


class Communicator:
    """The reducer of one process set, and the execution order of its collectives in a ``tf.function``."""

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
        """Return the index, within the set, of the task that has ``rank`` in the run. Raises InvalidInput if it is not
        in the set.
        """
        if rank not in self.ranks:
            raise InvalidInput(
                f"`root_rank` must be one of the ranks {list(self.ranks)}, got {rank!r:.200}", field="root_rank"
            )
        return self.ranks.index(rank)

    def named(self, name: str) -> str:
        """Return the name; in a TensorFlow 1 graph, prefixed with a number that is unique in the graph.

        Collectives in such a graph are matched by name. All tasks build the same graph, so they assign the same
        numbers.
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
        """Call ``collective``; in a ``tf.function``, its ops run after those of earlier calls."""
        return collective() if self.reducer.keeps_order else self._order(collective)


_communicators: dict[tuple[int, ...], Communicator] = {}
_lock = threading.RLock()


def communicator(process_set: ProcessSet | None = None) -> Communicator:
    """Return the communicator of a process set, by default of all tasks of the run.

    It is created on first use, for which every task in the set must call this. Raises RuntimeError outside a task.
    """
    ctx = current()
    ranks = tuple(range(ctx.size)) if process_set is None else tuple(process_set.ranks)
    with _lock:
        if ranks not in _communicators:
            with tf.init_scope():
                _communicators[ranks] = Communicator(ranks, make_reducer("auto", ctx, ranks))
        return _communicators[ranks]


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Create the communicator of a process set. Every task of the run must call this, even those outside the set.

    It is only necessary for TensorFlow's own collectives; otherwise, process sets are created on first use.
    """
    process_set = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    _all_do("add_process_set", process_set)
    if process_set.included():
        communicator(process_set)
    return process_set


def remove_process_set(process_set: ProcessSet) -> None:
    """Free a process set's resources. Every task of the run must call this. The set can be used again."""
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
    """Return whether a collective of this task was interrupted because another task left with a failure."""
    with _lock:
        return any(made.reducer.interrupted for made in _communicators.values())


def renew() -> None:
    """Restart all process sets. Collectives in which other tasks are waiting then fail, and those tasks must call this
    function as well.

    Traced functions keep working. Raises Unavailable for TensorFlow's own collectives.
    """
    with _lock:
        for ranks in sorted(_communicators):
            _communicators[ranks].reducer.renew()
    current().peer_lost = False


def close() -> None:
    """Leave all process sets. Tasks that are waiting for this task raise an error."""
    with _lock:
        for made in _communicators.values():
            made.reducer.close()
        _communicators.clear()


atexit.register(close)
