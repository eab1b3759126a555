"""Rules for when a gradient is applied and when its worker continues: asynchronously, with or without a bound on
staleness, or synchronously.

Pure: workers are identified by rank, and rules do not handle the gradients themselves. A ``ps`` task passes events to
its rule, which returns the list of updates to apply. Each update is the set of workers whose gradients it contains.
``may_go_on`` returns whether the server must answer a worker now.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable

Updates = list[frozenset[int]]


class Rule(ABC):
    """Decides when gradients are applied.

    ``version`` counts the updates to the variables. A gradient has the version of the variables that it was computed
    from.
    """

    def __init__(self, workers: Iterable[int]) -> None:
        self.version = 0
        self.training = set(workers)
        self.away: set[int] = set()
        """Workers that were lost before they had finished training and may reconnect. No other worker waits for them.
        """
        self.dropped = dict.fromkeys(sorted(self.training), 0)

    @abstractmethod
    def push(self, worker: int, version: int) -> Updates:
        """Handle the arrival of a gradient. Return the updates to apply now."""

    @abstractmethod
    def may_go_on(self, worker: int) -> bool:
        """Return whether a worker that has pushed a gradient receives the variables now."""

    def leave(self, worker: int) -> Updates:
        """Handle the end of a worker's training. Return the updates to apply now."""
        self.training.discard(worker)
        return []

    def lose(self, worker: int) -> Updates:
        """Handle the loss of a worker. Return the updates to apply now. Gradients of the worker that are not part of an
        update yet are discarded.
        """
        self.away.add(worker)
        return []

    def come_back(self, worker: int, version: int) -> None:
        """Handle the return of a lost worker, which starts with variables of ``version`` or later."""
        self.away.discard(worker)

    @property
    def present(self) -> set[int]:
        """The workers that are training and connected."""
        return self.training - self.away


class Asynchronous(Rule):
    """Applies each gradient when it arrives.

    ``max_staleness``: the largest number of finished steps by which a worker that starts a step may be ahead of the
    slowest worker that is still training (stale synchronous parallel: Ho et al. 2013); None: no limit.
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
        """Set the worker's progress to that of the slowest other worker, so that no worker waits for it to catch up."""
        self._steps[worker] = self._slowest(self._steps[worker])
        super().come_back(worker, version)

    def _slowest(self, otherwise: int) -> int:
        return min((self._steps[other] for other in self.present), default=otherwise)


class Synchronous(Rule):
    """Makes one update per step, from one gradient of each worker. The last ``backup_workers`` gradients of a step are
    not waited for.

    The first ``ps`` task uses this rule, and decides for all servers which workers' gradients form an update.
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
    """The rule of the other ``ps`` tasks in synchronous training, which follow the decisions of the first.

    If a worker was lost while sending a gradient, the first ``ps`` task may have received the gradient although this
    one has not. This task's update then omits it.
    """

    def __init__(self, workers: Iterable[int]) -> None:
        super().__init__(workers)
        self._arrived: set[int] = set()
        self._decided: dict[int, frozenset[int]] = {}
        # For each lost or reconnected worker, the first version whose update includes it; infinite while it is lost.
        self._takes_part_from: dict[int, float] = {}

    def push(self, worker: int, version: int) -> Updates:
        if version < self.version:
            self.dropped[worker] += 1
            return []
        self._arrived.add(worker)
        return self._complete()

    def decide(self, version: int, workers: Iterable[int]) -> Updates:
        """Handle the first ``ps`` task's decision on which workers' gradients form the update of ``version``. Return
        the updates to apply now.
        """
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
                break  # its gradient is still arriving
            for worker in self._arrived - chosen:
                self.dropped[worker] += 1
            done.append(chosen & self._arrived)
            self._arrived = set()
            del self._decided[self.version]
            self.version += 1
        return done
