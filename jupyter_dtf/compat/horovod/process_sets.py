"""Sets of tasks, with Horovod's API. From ``add_process_set`` to ``remove_process_set``, each set has a number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...backend.task import context
from ...backend.task.collectives import communicator
from ...errors import InvalidInput

_registered: dict[int, ProcessSet] = {}
"""The sets that have been added, keyed by number. Number 0 is the set of all tasks, which is not included here."""


class ProcessSet(communicator.ProcessSet):
    """A subset of the run's tasks, given by their ranks. A collective with ``process_set`` is limited to these tasks.

    ``process_set_id`` is the number of the set. It is None before ``add_process_set`` and after ``remove_process_set``.
    Raises InvalidInput if there are no ranks, or duplicate ranks.
    """

    mpi_comm = None

    def __init__(self, ranks: Iterable[int]) -> None:
        if not isinstance(ranks, Iterable):
            raise InvalidInput(
                f"`ranks` must be a list of ranks, because there is no MPI, got {ranks!r}", field="ranks"
            )
        super().__init__(list(ranks))
        self.ranks: Any = list(self.ranks)
        self.process_set_id: int | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, communicator.ProcessSet) and list(self.ranks) == list(other.ranks)

    def __hash__(self) -> int:
        return hash(tuple(self.ranks))

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={list(self.ranks)}, mpi_comm=None)"


class _Everyone(ProcessSet):
    """The process set of all tasks."""

    def __init__(self) -> None:
        self.process_set_id = 0

    @property
    def ranks(self) -> list[int]:  # type: ignore[override]
        return list(range(context.current().size))


global_process_set = _Everyone()


def ids_and_ranks() -> dict[int, list[int]]:
    """Return the ranks of all existing sets, keyed by number."""
    return {0: global_process_set.ranks, **{number: list(each.ranks) for number, each in _registered.items()}}


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Add a process set to which collectives can be limited. All tasks must call this, even those not in the set.

    Args:
        process_set: A process set, or its ranks.

    Returns:
        The process set, with its number.

    Raises:
        InvalidInput: If a set with these ranks already exists.
    """
    added = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    for number, ranks in ids_and_ranks().items():
        if ranks == added.ranks:
            raise InvalidInput(
                f"`process_set` must differ from existing ones, but number {number} has the same ranks, got {added}",
                field="process_set",
            )
    communicator.add_process_set(added)
    added.process_set_id = next(number for number in range(1, len(_registered) + 2) if number not in _registered)
    _registered[added.process_set_id] = added
    return added


def add_at_start(process_sets: Sequence[ProcessSet]) -> None:
    """Add the sets passed to ``init``. As in Horovod, a set with the same ranks as an existing one is not added."""
    for process_set in process_sets:
        same = next((number for number, ranks in ids_and_ranks().items() if ranks == list(process_set.ranks)), None)
        if same is None:
            add_process_set(process_set)
        elif same:  # already added: programs call init more than once
            process_set.process_set_id = same


def remove_process_set(process_set: ProcessSet) -> bool:
    """Remove a set. All tasks must call this. Returns False for the set of all tasks, and for unknown sets."""
    number = process_set.process_set_id
    if number is None or number == 0:
        return False
    process_set.process_set_id = None
    removed = _registered.pop(number, None)
    if removed is not None:
        removed.process_set_id = None
        communicator.remove_process_set(removed)
    return removed is not None


def forget_all() -> None:
    for process_set in _registered.values():
        process_set.process_set_id = None
    _registered.clear()


def by_number(process_set_id: int) -> ProcessSet:
    """Return the set with that number. Raises InvalidInput if there is none."""
    if process_set_id == 0:
        return global_process_set
    if process_set_id not in _registered:
        raise InvalidInput(
            f"`process_set_id` must be one of {sorted(ids_and_ranks())}, got {process_set_id}", field="process_set_id"
        )
    return _registered[process_set_id]


def ours(process_set: Any) -> communicator.ProcessSet | None:
    """Convert a process set for ``ops``, where None means all tasks.

    Raises InvalidInput if the set's number belongs to another set.
    """
    if process_set is None or process_set is global_process_set:
        return None
    number = getattr(process_set, "process_set_id", None)
    if number is not None and list(by_number(number).ranks) != list(process_set.ranks):
        raise InvalidInput(f"`process_set` must have the number it was given, got {process_set}", field="process_set")
    made: communicator.ProcessSet = process_set
    return made


def set_size(process_set: Any) -> int:
    return int(context.current().size if ours(process_set) is None else process_set.size())


def included(process_set: Any) -> bool:
    return ours(process_set) is None or bool(process_set.included())
