"""Periodic progress reports of a task that processes batches."""

from __future__ import annotations

import time
from typing import Any

PERIOD_S = 0.2


class Pace:
    """Counts batches and reports progress every ``PERIOD_S`` seconds.

    ``total`` is the number of this task's batches, 0 if unknown. The chief's progress is shown as that of all tasks.
    """

    def __init__(self, ctx: Any, total: int) -> None:
        self._ctx = ctx
        self._total = total
        self._next_s = 0.0
        self._told = 0
        self._since_s = time.perf_counter()
        self.done = 0

    def add(self, batches: int) -> bool:
        """Add to the number of processed batches. Returns False if a stop of the run was requested."""
        self.done += batches
        now = time.perf_counter()
        if now >= self._next_s:
            self._tell(now)
        return not self._ctx.should_stop

    def end(self) -> None:
        """Report that all batches are done."""
        self._tell(time.perf_counter())

    def _tell(self, now: float) -> None:
        self._ctx.progress(self.done, max(self._total, self.done if self._total else 0), "batch")
        if self._told and self.done > self._told:
            self._ctx.report(step=self.done, batches_per_second=(self.done - self._told) / (now - self._since_s))
        self._told, self._since_s, self._next_s = self.done, now, now + PERIOD_S
