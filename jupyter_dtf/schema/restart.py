"""What is done when a task dies or freezes: how often its run begins again. ``backend/cluster/driver.py`` does it."""

from __future__ import annotations

import math

import msgspec

from ..errors import InvalidInput

STALLED_AFTER_S = 600.0
"""What ``stalled_after`` None means."""
MIN_STALLED_AFTER_S = 1.0


class Restart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a run does when one of its tasks dies or freezes, by no error of its own program.

    ``max_restarts``: so many times the tasks that were lost are started again, or all of them where the others cannot
    go on, on the hosts that are there then. 0: the run ends with the first task that is lost. ``stalled_after``:
    seconds without a step, a word or the use of a processor after which a task that had made steps before is held to be
    frozen. None: 600. A task that was stopped (SIGSTOP) is noticed within 5 seconds whatever this says.
    ``min_workers``, of a training by all-reduce: where there is no room for the tasks that were lost, those that are
    left go on without them if they are at least so many, and with them again when there is. None: they wait for room.

    Raises InvalidInput for other values.
    """

    max_restarts: int = 3
    stalled_after: float | None = None
    min_workers: int | None = None

    def __post_init__(self) -> None:
        count, seconds = self.max_restarts, self.stalled_after
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise InvalidInput(
                f"max_restarts is a whole number, 0 or more. Received: {count!r:.100}", field="restart.max_restarts"
            )
        least = self.min_workers
        if least is not None and (isinstance(least, bool) or not isinstance(least, int) or least < 1):
            raise InvalidInput(
                f"min_workers is a whole number, 1 or more, or None (wait for room). Received: {least!r:.100}",
                field="restart.min_workers",
            )
        if seconds is None:
            return
        is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if not is_number or not MIN_STALLED_AFTER_S <= seconds < math.inf:
            raise InvalidInput(
                f"stalled_after is a number of seconds, {MIN_STALLED_AFTER_S:g} or more, or None "
                f"({STALLED_AFTER_S:g}). Received: {seconds!r:.100}",
                field="restart.stalled_after",
            )

    @property
    def attempts(self) -> int:
        """How often the tasks are started at most, the first time included."""
        return self.max_restarts + 1

    @property
    def stalled_after_s(self) -> float:
        """``stalled_after``, or what it is by default."""
        return STALLED_AFTER_S if self.stalled_after is None else float(self.stalled_after)


NEVER = Restart(max_restarts=0)


def as_restart(value: object) -> Restart:
    """``restart=`` as a person writes it: a ``Restart``, True (as it is by default) or False. Raises InvalidInput."""
    if isinstance(value, Restart):
        return value
    if isinstance(value, bool):
        return Restart() if value else NEVER
    raise InvalidInput(
        f"restart is a dtf.Restart, True, False or None (as is usual for the run). Received: {value!r:.100}",
        field="restart",
    )
