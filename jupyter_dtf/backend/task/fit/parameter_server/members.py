"""A ``ps`` task's records of the workers of a run, and of the position at which each worker starts."""

from __future__ import annotations

from dataclasses import dataclass, field

from .messages import Place, Start, Started


@dataclass
class Visit:
    """A connection from a worker's process. It ends no later than when another process of the worker connects."""

    rank: int
    is_over: bool = False


@dataclass
class Member:
    """A ``ps`` task's record of one worker."""

    task: str
    number: int = 0
    """The number of the worker's last gradient, counted from 1; 0: none has arrived yet."""
    scheduled: int = 0
    applied: int = 0
    repeated: int = 0
    has_left: bool = False
    """Whether the worker's training has ended."""
    has_gone: bool = False
    """Whether the worker's process has disconnected after the end of its training."""
    place: Place | None = None
    """The worker's position after its last gradient; None before its first gradient, while the worker is at its
    starting position.
    """
    visit: Visit | None = None
    """The current connection; None while the worker is not connected."""
    visits: int = 0


@dataclass
class Members:
    """All workers of the run, keyed by rank."""

    by_rank: dict[int, Member]
    start: Start | None = field(default=None)

    @property
    def places(self) -> tuple[Place, ...]:
        """Each worker's position, in rank order; empty if the workers are synchronous."""
        return tuple(self.place(rank) for rank in sorted(self.by_rank)) if self.start is not None else ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """The number of each worker's last gradient, in rank order."""
        return tuple(self.by_rank[rank].number for rank in sorted(self.by_rank))

    def place(self, rank: int) -> Place:
        """Return a worker's position, which is its starting position until it has sent a gradient."""
        assert self.start is not None
        known = self.by_rank[rank].place
        if known is not None:
            return known
        return self.start.places[rank] if rank < len(self.start.places) else self.start.place

    def started(self, rank: int, version: int) -> Started:
        """Return the answer to a worker's process that requests its starting position."""
        start, member = self.start, self.by_rank[rank]
        assert start is not None
        return Started(
            seed=start.seed,
            first_epoch=start.first_epoch,
            place=self.place(rank),
            version=version,
            number=member.number,
            has_left=member.has_left,
            is_back=member.visits > 1,
        )

    def have(self, numbers: tuple[int, ...], away: set[int]) -> bool:
        """Return whether all gradients up to ``numbers`` have arrived, except those of workers in ``away``."""
        return all(rank in away or self.by_rank[rank].number >= number for rank, number in enumerate(numbers))
