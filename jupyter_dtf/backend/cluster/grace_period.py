"""The grace period in which a run's tasks may end on their own, extended while a checkpoint is being written."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from .active_run import Run

logger = logging.getLogger(__name__)

LOOK_S = 0.5
"""The interval between checks of whether a checkpoint is still being written: equal to that of heartbeats."""
SAVING_S = 300.0
"""How long writing a checkpoint may continue after the grace period before the tasks are killed."""
AFTER_SAVING_S = 3.0
"""How long a task may take to end after its checkpoint."""


async def is_spent(run: Run, grace_s: float, rpc: Callable[[str], Any]) -> bool:
    """Wait up to ``grace_s`` seconds for a run's tasks to end, or longer while a task writes a checkpoint.

    ``rpc(address)`` connects to a host. Returns whether the time is up and the tasks should be killed.
    """
    attempt = run.attempt
    if await _ended(run, grace_s):
        return False
    loop = asyncio.get_running_loop()
    until, was_saving = loop.time() + SAVING_S, False
    while loop.time() < until and await _saves(run, rpc):
        if not was_saving:
            run.note(
                "info",
                "A checkpoint is being written",
                f"The grace period of {grace_s:g} s is over, but the run may finish the checkpoint",
            )
        was_saving = True
        if await _ended(run, LOOK_S):
            return False
    if was_saving and await _ended(run, AFTER_SAVING_S):
        return False
    return run.is_active and run.attempt == attempt


async def _ended(run: Run, within_s: float) -> bool:
    """Wait up to ``within_s`` seconds. Returns whether all tasks have ended or the run is over."""
    waits = [asyncio.ensure_future(event.wait()) for event in (run.tasks_ended, run.ended)]
    done, _ = await asyncio.wait(waits, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    for each in waits:
        each.cancel()
    return bool(done)


async def _saves(run: Run, rpc: Callable[[str], Any]) -> bool:
    """Return whether a task of the run is writing a checkpoint. Hosts that do not respond are ignored."""
    for address in list(run.by_host):
        with contextlib.suppress(Exception):
            if await asyncio.wait_for(rpc(address).dtf_saves(run_id=run.id), AFTER_SAVING_S):
                return True
    return False
