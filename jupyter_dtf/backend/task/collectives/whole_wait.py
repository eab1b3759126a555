"""Waiting in a collective, whatever it is made of: who is missing is said once, and a wait without end is ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from .lookout import Lookout, Wait, Watch

Stalled = Callable[[list[str], str], None]
"""Told the names of the tasks that are missing, and what the others wait for."""


class WholeWait(Watch):
    """What the parts of a reducer among ``ranks`` of the run, ``tasks`` by name, ask where this task ``rank`` waits.

    ``stalled`` is called once in a collective that has lasted ``stall_s`` seconds, on the first task of those that
    wait. The parts run in the thread that has entered ``collective``.
    """

    def __init__(
        self,
        group: str,
        rank: int,
        ranks: Sequence[int],
        tasks: Sequence[str],
        *,
        lookout: Lookout,
        stall_s: float,
        stalled: Stalled,
    ) -> None:
        self._key = self._group = group
        self._starts = 0
        self._rank = rank
        self._ranks = tuple(ranks)
        self._others = tuple(r for r in ranks if r != rank)
        self._tasks = dict(zip(ranks, tasks, strict=True))
        self._lookout = lookout
        self.stall_s = stall_s
        self._stalled = stalled
        self._lock = threading.RLock()
        self._depth = 0
        self._number = 0
        self._text = ""
        self._since = 0.0
        self._posted = False
        self._noted = False

    @contextmanager
    def start(self) -> Iterator[None]:
        """The first collective, in which all parts begin, or begin anew: from here on all tasks count the same.

        Until then some may have been in more collectives than others, which had given up. Nobody leaves this one before
        all have come: who went on would wait for tasks that still wait in it.
        """
        with self._lock:
            if not self._depth:
                self._starts += 1
                self._group, self._number = f"{self._key}-{self._starts}", 0
            with self.collective("start"):
                yield

    @contextmanager
    def collective(self, text: str) -> Iterator[None]:
        """One collective, of which all parts are one wait. Within another one it is a part of that."""
        with self._lock:
            if not self._depth:
                self._number += 1
                self._text, self._since, self._noted = text, time.monotonic(), False
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if not self._depth and self._posted:
                    self._posted = False
                    self._lookout.over(self._group)

    def look(self, wait: Wait) -> str:
        return self.still_waits()

    def still_waits(self) -> str:
        """To be called every now and then while a part waits. Why that will never end, or nothing."""
        self._posted = True
        verdict = self._lookout.look(self._wait())
        if not verdict and not self._noted and time.monotonic() - self._since >= self.stall_s:
            self._noted = True
            come = {self._rank, *self._lookout.others(self._group, self._number)}
            names = [name for rank, name in self._tasks.items() if rank not in come]
            if min(come) == self._rank and names:
                self._stalled(names, self._text)
        return verdict

    def over(self, group: str) -> None:
        """A part need not wait any more; the whole may."""

    def go(self, group: str, why: str) -> None:
        self._lookout.go(self._group, why)

    def why_gone(self, wait: Wait, rank: int) -> str:
        return self.why_gone_from(rank)

    def why_gone_from(self, rank: int) -> str:
        """Why the task of that rank of the run has gone, if it is because tasks have called different things."""
        return self._lookout.why_gone(self._wait(), rank)

    def _wait(self) -> Wait:
        # For all the others: whoever a part of this task waits for may itself wait, in another part, for one of them.
        return Wait(self._group, self._number, self._text, self._ranks, self._others)
