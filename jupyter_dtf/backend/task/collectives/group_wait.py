"""Waits in a collective with several parts: missing tasks are reported once, and deadlocks end with an error."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from .deadlocks import Lookout, Wait, Watch

Stalled = Callable[[list[str], str], None]
"""Called with the names of missing tasks and the call in which the other tasks are waiting."""


class WholeWait(Watch):
    """Watches the waits of all parts of a reducer in task ``rank``, among the tasks ``ranks`` with the names ``tasks``.

    ``stalled`` is called, in the first of the waiting tasks, once per collective that has lasted ``stall_s`` seconds.
    The parts run in the thread that has entered ``collective``.
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
        """Run the first collective, in which all parts start or restart. All tasks count collectives from this one.

        Before a restart, tasks that gave up may have taken part in fewer collectives than others. No task leaves this
        collective before all tasks have reached it. Otherwise, a task that has left it could wait for tasks that are
        still in it.
        """
        with self._lock:
            if not self._depth:
                self._starts += 1
                self._group, self._number = f"{self._key}-{self._starts}", 0
            with self.collective("start"):
                yield

    @contextmanager
    def collective(self, text: str) -> Iterator[None]:
        """Run one collective. Waits in its parts count as one wait. A nested collective is a part of the outer one."""
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
        """Check the wait. Return the reason why it will never end, or an empty string if it may end. Call this
        regularly while waiting.
        """
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
        """Do nothing: the wait of a part has ended, but other parts may still wait."""

    def go(self, group: str, why: str) -> None:
        self._lookout.go(self._group, why)

    def why_gone(self, wait: Wait, rank: int) -> str:
        return self.why_gone_from(rank)

    def why_gone_from(self, rank: int) -> str:
        """Return why that task has left, if the reason is that tasks have made different calls; otherwise, an empty
        string.
        """
        return self._lookout.why_gone(self._wait(), rank)

    def _wait(self) -> Wait:
        # All other tasks count as missing: a task for which one part waits may wait for any of them in another part.
        return Wait(self._group, self._number, self._text, self._ranks, self._others)
