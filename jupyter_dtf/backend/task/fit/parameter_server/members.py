"""The workers of a run as a ``ps`` task knows them, and with what each begins."""

from __future__ import annotations

from dataclasses import dataclass, field

from .messages import Place, Start, Started


@dataclass
class Visit:
    """One conversation with a worker's process. Another process of the same worker makes it ``over``."""

    rank: int
    is_over: bool = False


@dataclass
class Member:
    """A worker."""

    task: str
    number: int = 0
    """Of its last gradient."""
    scheduled: int = 0
    applied: int = 0
    repeated: int = 0
    has_left: bool = False
    """Its training has ended."""
    has_gone: bool = False
    """So has its process, after that."""
    place: Place | None = None
    """Where it is by its last gradient; None: where it began."""
    visit: Visit | None = None
    """The one that is under way; None while it is not there."""
    visits: int = 0


@dataclass
class Members:
    """All workers, by rank."""

    by_rank: dict[int, Member]
    start: Start | None = field(default=None)

    @property
    def places(self) -> tuple[Place, ...]:
        """Where each is; empty where they are not apart."""
        return tuple(self.place(rank) for rank in sorted(self.by_rank)) if self.start is not None else ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of each one's last gradient."""
        return tuple(self.by_rank[rank].number for rank in sorted(self.by_rank))

    def place(self, rank: int) -> Place:
        """Where a worker is."""
        assert self.start is not None
        known = self.by_rank[rank].place
        if known is not None:
            return known
        return self.start.places[rank] if rank < len(self.start.places) else self.start.place

    def started(self, rank: int, version: int) -> Started:
        """What a worker's process is told when it begins."""
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
        """Whether each one's gradients up to these are here, but for what those that are ``away`` have not sent."""
        return all(rank in away or self.by_rank[rank].number >= number for rank, number in enumerate(numbers))
