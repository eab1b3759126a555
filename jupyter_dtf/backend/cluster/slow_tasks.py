"""Watches runs for delays: reports slow tasks, and kills a task that stalls its run, which then counts as lost."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from ...schema.launch import Pace, Quiet
from .active_run import Run
from .cluster_runs import Runs
from .host_watch import HostWatch
from .stalls import Stalls
from .stragglers import Stragglers

logger = logging.getLogger(__name__)

LOOK_S = 1.0
"""The interval between two checks."""


class SlowTasks:
    """Stores the hosts' last reports on the progress of their tasks, and acts on them."""

    def __init__(self, runs: Runs, hosts: HostWatch) -> None:
        self._runs = runs
        self._hosts = hosts
        self._stalls = Stalls()
        self._stragglers = Stragglers()

    def tells(self, address: str, quiet: Sequence[Any], paces: Sequence[Any]) -> None:
        """Store a host's report (``Quiet`` and ``Pace`` as plain data). Raises msgspec.ValidationError."""
        self._stalls.tells(address, msgspec.convert(quiet, list[Quiet]))
        self._stragglers.tells(address, msgspec.convert(paces, list[Pace]))

    def gone(self, address: str) -> None:
        """Forget a host that has left."""
        self._stalls.gone(address)
        self._stragglers.gone(address)

    async def watch(self) -> None:
        """Check all active runs periodically, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            active = self._runs.active
            self._stragglers.forget(run.id for run in active)
            for run in active:
                for look in (self._report, self._raise_alarms, self._end_stall):
                    try:
                        await look(run)
                    except Exception:  # the other checks and the other runs must continue
                        logger.exception("The delays of run %s could not be checked", run.id)

    async def _report(self, run: Run) -> None:
        for word in self._stragglers.look(run):
            run.note(*word)

    async def _raise_alarms(self, run: Run) -> None:
        for alarm in run.alarms.machines(run.info.state, run.planned, self._hosts.infos, time.monotonic()):
            run.alarm(*alarm)

    async def _end_stall(self, run: Run) -> None:
        if (blamed := self._stalls.blamed(run)) is not None:
            address, task, why = blamed
            attempt = run.task_info(task).attempt
            await self._hosts.tell([address], "dtf_end_frozen", run_id=run.id, task=task, attempt=attempt, why=why)
