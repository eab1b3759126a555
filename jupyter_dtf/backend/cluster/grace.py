"""How long the tasks of a run may take to end by themselves: as long as was said, and a checkpoint is written whole."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from .active_run import Run

logger = logging.getLogger(__name__)

LOOK_S = 0.5
"""Between two looks whether a checkpoint is still being written: as often as tasks give signs of life."""
SAVING_S = 300.0
"""How long a checkpoint may take to be written beyond the grace; what is not done by then is cut."""
AFTER_SAVING_S = 3.0
"""How long a task may take to end after it."""


async def is_spent(run: Run, grace_s: float, rpc: Callable[[str], Any]) -> bool:
    """Wait for the end of a run's tasks. Returns whether they are to be ended, for they have had their time.

    ``rpc(address)`` reaches a host.
    """
    attempt = run.attempt
    if await _ended(run, grace_s):
        return False
    loop = asyncio.get_running_loop()
    until, was_saving = loop.time() + SAVING_S, False
    while loop.time() < until and await _saves(run, rpc):
        if not was_saving:
            run.note("info", "A checkpoint is being written", f"The run has had its {grace_s:g} s, and may finish it")
        was_saving = True
        if await _ended(run, LOOK_S):
            return False
    if was_saving and await _ended(run, AFTER_SAVING_S):
        return False
    return run.is_active and run.attempt == attempt


async def _ended(run: Run, within_s: float) -> bool:
    """Whether no task is left, or the run is over, so soon."""
    waits = [asyncio.ensure_future(event.wait()) for event in (run.tasks_ended, run.ended)]
    done, _ = await asyncio.wait(waits, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    for each in waits:
        each.cancel()
    return bool(done)


async def _saves(run: Run, rpc: Callable[[str], Any]) -> bool:
    """Whether a task of the run writes a checkpoint now. A host that does not answer says nothing of it."""
    for address in list(run.by_host):
        with contextlib.suppress(Exception):
            if await asyncio.wait_for(rpc(address).dtf_saves(run_id=run.id), AFTER_SAVING_S):
                return True
    return False
