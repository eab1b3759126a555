"""Measures the parts of a task's step time, which are reported about once per second for all steps since the last
report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....schema.metrics import STEP_CHECKPOINT, STEP_COMPUTE, STEP_EXCHANGE, STEP_INPUT, STEP_WAIT
from .. import time_accounts
from ..time_accounts import Totals

EVERY_S = 1.0


class StepClock:
    """Measures how long each part of a step takes. The parts, which ``STEP_PARTS`` lists, add up to the step time,
    except that waiting is included in the exchange. Calls ``tell(figures)`` to report the mean seconds per step, keyed
    by metric.

    As in ``step_seconds``, a step lasts from the end of the previous one to its own end. The first step, which includes
    compilation, is not counted. ``has_exchange``: whether this package performs all exchanges, so that they are
    measured; otherwise, exchanges and waiting count as computation. ``has_waits``: whether exchanges report how long
    they wait for other tasks. ``totals()`` and ``input_s()`` return the accumulated times in seconds.
    """

    def __init__(
        self,
        tell: Callable[[Mapping[str, float]], None],
        *,
        has_exchange: bool,
        has_waits: bool,
        input_s: Callable[[], float],
        totals: Callable[[], Totals] = time_accounts.totals,
    ) -> None:
        self._tell = tell
        self._has_exchange = has_exchange
        self._has_waits = has_exchange and has_waits
        self._input_s = input_s
        self._totals = totals
        self._is_first = True
        self._mark_s = 0.0
        self._mark = Totals(0.0, 0.0, 0.0)
        self._saved_mark_s: float | None = None
        self._input_mark_s = 0.0
        self._begin(0.0)

    def _begin(self, now: float) -> None:
        self._since = now
        self._steps = 0
        self._seconds = self._exchanged_s = self._waited_s = 0.0
        self._saved_between_s = self._saved_s = 0.0

    def begin_epoch(self, now: float) -> None:
        """Start an epoch. The time since the last step is not counted, except for the time spent saving a
        checkpoint.
        """
        totals = self._totals()
        if self._saved_mark_s is None:  # training begins
            self._saved_mark_s = totals.saved_s
            self._input_mark_s = self._input_s()
        self._saved_between(totals)
        self._mark_s, self._mark = now, totals
        if not self._steps:
            self._since = now

    def _saved_between(self, totals: Totals) -> None:
        if self._saved_mark_s is not None:
            self._saved_between_s += totals.saved_s - self._saved_mark_s
        self._saved_mark_s = totals.saved_s

    def steps_done(self, steps: int, now: float) -> None:
        """Record that ``steps`` steps have been done since the last call."""
        totals, before = self._totals(), self._mark
        seconds, self._mark_s = now - self._mark_s, now
        self._mark, self._saved_mark_s = totals, totals.saved_s
        if self._is_first:
            self._is_first = False
            self._begin(now)
            self._input_mark_s = self._input_s()
            return
        self._steps += steps
        self._seconds += seconds
        self._exchanged_s += totals.exchanged_s - before.exchanged_s
        self._waited_s += totals.waited_s - before.waited_s
        self._saved_s += totals.saved_s - before.saved_s
        if now - self._since >= EVERY_S:
            self._say(now)

    def end(self, now: float) -> None:
        """Report the remaining steps at the end of training."""
        self._saved_between(self._totals())
        self._say(now)

    def _say(self, now: float) -> None:
        if self._steps <= 0:
            return
        input_s = self._input_s()
        figures = parts_of(
            self._seconds,
            input_s=input_s - self._input_mark_s,
            exchanged_s=self._exchanged_s if self._has_exchange else None,
            waited_s=self._waited_s if self._has_waits else None,
            saved_s=self._saved_s,
            saved_between_s=self._saved_between_s,
        )
        self._tell({name: seconds / self._steps for name, seconds in figures.items()})
        self._input_mark_s = input_s
        self._begin(now)


def parts_of(
    seconds: float,
    *,
    input_s: float,
    exchanged_s: float | None,
    waited_s: float | None,
    saved_s: float,
    saved_between_s: float,
) -> dict[str, float]:
    """Return the parts of the ``seconds`` that steps have taken, keyed by metric. ``exchanged_s`` is None if exchanges
    are not measured and therefore count as computation; ``waited_s`` is None if waiting is not measured.

    An exchange that runs during computation counts as exchange. The time spent saving checkpoints between steps is
    added to that of saving within steps.
    """
    left = seconds
    found = {STEP_CHECKPOINT: _within(saved_s, left)}
    left -= found[STEP_CHECKPOINT]
    found[STEP_INPUT] = _within(input_s, left)
    left -= found[STEP_INPUT]
    if exchanged_s is not None:
        found[STEP_EXCHANGE] = _within(exchanged_s, left)
        left -= found[STEP_EXCHANGE]
        if waited_s is not None:
            found[STEP_WAIT] = _within(waited_s, found[STEP_EXCHANGE])
    found[STEP_COMPUTE] = left
    found[STEP_CHECKPOINT] += saved_between_s
    return found


def _within(seconds: float, most: float) -> float:
    return min(max(seconds, 0.0), most)
