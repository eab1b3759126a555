"""A cluster whose runs Dask cannot see: it is told that it is not idle while one works.

A run's tasks are none of Dask's. To its scheduler, and to a gateway, a cluster in the midst of a training has done
nothing for hours, and ``distributed.scheduler.idle-timeout`` or the gateway's own would end it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from distributed import Scheduler
from distributed.scheduler import Transition

LOOK_S = 2.0
"""Less than any time after which somebody would call a cluster idle."""


async def stay_awake(scheduler: Scheduler, is_busy: Callable[[], bool]) -> None:
    """For as long as this is not cancelled: leave the traces of work that idleness is judged by."""
    while True:
        if is_busy():
            scheduler.transition_counter += 1
            scheduler.transition_log.append(
                Transition("jupyter_dtf", "processing", "processing", {}, "jupyter_dtf", time.time())
            )
        await asyncio.sleep(LOOK_S)
