"""Keeps Dask from considering a cluster idle while a run, which Dask cannot see, is working.

A run's tasks are not Dask tasks. To the scheduler or a gateway, a cluster in the middle of a training run appears to
have been idle for hours, so ``distributed.scheduler.idle-timeout`` or the gateway's own timeout would shut it down.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from distributed import Scheduler
from distributed.scheduler import Transition

LOOK_S = 2.0
"""The interval between two recorded transitions: shorter than any sensible idle timeout."""


async def stay_awake(scheduler: Scheduler, is_busy: Callable[[], bool]) -> None:
    """While ``is_busy()`` is true, record task transitions, so that Dask sees work. Runs until cancelled."""
    while True:
        if is_busy():
            scheduler.transition_counter += 1
            scheduler.transition_log.append(
                Transition("jupyter_dtf", "processing", "processing", {}, "jupyter_dtf", time.time())
            )
        await asyncio.sleep(LOOK_S)
