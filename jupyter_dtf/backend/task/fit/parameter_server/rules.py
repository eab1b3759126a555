"""When a gradient is applied and when its worker goes on: asynchronously, within a bound, or step by step.

Pure: workers are ranks, gradients do not appear. A ``ps`` task tells its rule what comes and gets back what to apply: a
list of updates, each the set of workers whose gradients form it. ``may_go_on`` says whose answers are due.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable

Updates = list[frozenset[int]]


class Rule(ABC):
    """``version`` counts the updates of the variables; a gradient has the version that it was computed from."""

    def __init__(self, workers: Iterable[int]) -> None:
        self.version = 0
        self.training = set(workers)
        self.away: set[int] = set()
        """Those that have gone without leaving, and may come back: nobody waits for them."""
        self.dropped = dict.fromkeys(sorted(self.training), 0)

    @abstractmethod
    def push(self, worker: int, version: int) -> Updates:
        """A gradient has come."""

    @abstractmethod
    def may_go_on(self, worker: int) -> bool:
        """Whether a worker that has pushed is to get the variables now."""

    def leave(self, worker: int) -> Updates:
        """A worker trains no more."""
        self.training.discard(worker)
        return []

    def lose(self, worker: int) -> Updates:
        """A worker has gone without leaving. What it has sent and is in no update yet is forgotten."""
        self.away.add(worker)
        return []

    def come_back(self, worker: int, version: int) -> None:
        """A worker that had gone is there anew, and begins with variables of ``version`` or later."""
        self.away.discard(worker)

    @property
    def present(self) -> set[int]:
        """Those that train and are there."""
        return self.training - self.away


class Asynchronous(Rule):
    """Each gradient is applied when it comes.

    ``max_staleness``: a worker begins a step only when the slowest that still trains has finished all but so many of
    the steps before it (stale synchronous parallel: Ho et al. 2013).
    """

    def __init__(self, workers: Iterable[int], max_staleness: int | None) -> None:
        super().__init__(workers)
        self._max_staleness = max_staleness
        self._steps = dict.fromkeys(self.training, 0)

    def push(self, worker: int, version: int) -> Updates:
        self.version += 1
        self._steps[worker] += 1
        return [frozenset([worker])]

    def may_go_on(self, worker: int) -> bool:
        if self._max_staleness is None:
            return True
        return self._steps[worker] - self._slowest(self._steps[worker]) <= self._max_staleness

    def come_back(self, worker: int, version: int) -> None:
        """It counts as the slowest of the others: they have not to wait until it has caught up with them."""
        self._steps[worker] = self._slowest(self._steps[worker])
        super().come_back(worker, version)

    def _slowest(self, otherwise: int) -> int:
        return min((self._steps[other] for other in self.present), default=otherwise)


class Synchronous(Rule):
    """One update a step, of the first gradients that come; ``backup_workers`` fewer than there are workers.

    The first ``ps`` task decides whose these are.
    """

    def __init__(self, workers: Iterable[int], backup_workers: int) -> None:
        super().__init__(workers)
        self._backup_workers = backup_workers
        self._arrived: set[int] = set()

    def push(self, worker: int, version: int) -> Updates:
        if version < self.version:
            self.dropped[worker] += 1
            return []
        self._arrived.add(worker)
        return self._complete()

    def may_go_on(self, worker: int) -> bool:
        return worker not in self._arrived

    def leave(self, worker: int) -> Updates:
        super().leave(worker)
        return self._complete()

    def lose(self, worker: int) -> Updates:
        super().lose(worker)
        self._arrived.discard(worker)
        return self._complete()

    def _complete(self) -> Updates:
        needed = min(len(self.training) - self._backup_workers, len(self.present))
        if not self._arrived or len(self._arrived) < needed:
            return []
        chosen, self._arrived = frozenset(self._arrived), set()
        self.version += 1
        return [chosen]


class Following(Rule):
    """The other ``ps`` tasks' part in synchronous training: they apply what the first has decided on.

    Of a worker that went while it was sending, the first may have what has not come here: it is left out.
    """

    def __init__(self, workers: Iterable[int]) -> None:
        super().__init__(workers)
        self._arrived: set[int] = set()
        self._decided: dict[int, frozenset[int]] = {}
        self._takes_part_from: dict[int, float] = {}  # of workers that have gone or come back: the first version

    def push(self, worker: int, version: int) -> Updates:
        if version < self.version:
            self.dropped[worker] += 1
            return []
        self._arrived.add(worker)
        return self._complete()

    def decide(self, version: int, workers: Iterable[int]) -> Updates:
        """The first ``ps`` task's word on whose gradients make the update of ``version``."""
        self._decided[version] = frozenset(workers)
        return self._complete()

    def may_go_on(self, worker: int) -> bool:
        return worker not in self._arrived

    def lose(self, worker: int) -> Updates:
        super().lose(worker)
        self._arrived.discard(worker)
        self._takes_part_from[worker] = math.inf
        return self._complete()

    def come_back(self, worker: int, version: int) -> None:
        super().come_back(worker, version)
        self._takes_part_from[worker] = version

    def _complete(self) -> Updates:
        done: Updates = []
        while (chosen := self._decided.get(self.version)) is not None:
            if any(self._takes_part_from.get(worker, 0) <= self.version for worker in chosen - self._arrived):
                break  # its gradient is on its way
            for worker in self._arrived - chosen:
                self.dropped[worker] += 1
            done.append(chosen & self._arrived)
            self._arrived = set()
            del self._decided[self.version]
            self.version += 1
        return done
