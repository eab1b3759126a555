"""The restart policy: what happens when a task dies or freezes.

``backend/cluster/active_run.py`` decides what happens, ``restarts.py`` restarts all tasks and ``rejoining.py`` single
ones, and ``task_assignment.py`` finds places for them.
"""

from __future__ import annotations

import math

import msgspec

from ..errors import InvalidInput
from .arguments import check_integer, is_number, make_plain

STALLED_AFTER_S = 600.0
"""The default of ``stalled_after``."""
MIN_STALLED_AFTER_S = 1.0


class Restart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The reaction of a run to a task that dies or freezes for a reason other than an error in the run's program.

    Attributes:
        max_restarts: The number of times that lost tasks are restarted (or all tasks, if the others cannot continue
            without them), on the hosts that are available at that time. 0: the run ends when a task is lost.
        stalled_after: Seconds without a step, output or CPU use after which a task that has completed at least one step
            counts as frozen. None: 600. A task that was stopped (SIGSTOP) is detected within 5 seconds in any case.
        min_workers: Only for training. If the hosts have no capacity to restart lost workers, training continues
            without them if at least this many workers remain, and includes them again when there is capacity. A
            ``dtf.Pipeline`` continues with fewer copies, and so needs ``replicas``. None: wait for capacity.

    Raises:
        InvalidInput: If a value is invalid.

    Example:
        >>> cluster.fit(model, x, y, restart=dtf.Restart(max_restarts=10, min_workers=2))
    """

    max_restarts: int = 3
    stalled_after: float | None = None
    min_workers: int | None = None

    def __post_init__(self) -> None:
        make_plain(self)
        check_integer(self.max_restarts, "restart.max_restarts", 0)
        if self.min_workers is not None:
            check_integer(self.min_workers, "restart.min_workers", 1, note=", or None (wait for capacity)")
        seconds = self.stalled_after
        if seconds is None:
            return
        if not is_number(seconds) or not MIN_STALLED_AFTER_S <= seconds < math.inf:
            raise InvalidInput(
                f"`stalled_after` must be a number of seconds >= {MIN_STALLED_AFTER_S:g}, or None "
                f"({STALLED_AFTER_S:g}), got {seconds!r:.100}",
                field="restart.stalled_after",
            )

    @property
    def attempts(self) -> int:
        """The largest number of times that tasks are started, including the first time."""
        return self.max_restarts + 1

    @property
    def stalled_after_s(self) -> float:
        """The value of ``stalled_after``, or its default."""
        return STALLED_AFTER_S if self.stalled_after is None else float(self.stalled_after)


NEVER = Restart(max_restarts=0)


def as_restart(value: object) -> Restart:
    """Convert the argument ``restart=`` (a ``Restart``, True for the default, or False). Raises InvalidInput."""
    if isinstance(value, Restart):
        return value
    if isinstance(value, bool):
        return Restart() if value else NEVER
    raise InvalidInput(
        f"`restart` must be a dtf.Restart, True, False or None (the default for the run), got {value!r:.100}",
        field="restart",
    )
