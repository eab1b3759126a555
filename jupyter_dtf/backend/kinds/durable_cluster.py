"""Dask's LocalCluster, changed so that lost workers are always replaced, however long that takes.

Dask closes the nanny of a worker that has been gone from the scheduler for 15 s
(``distributed.deploy.lost-worker-timeout``) but still counts that worker as present, so it is never replaced. On a busy
machine, it can take longer than 15 s for a worker to exit and for its successor to import Dask.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from distributed import LocalCluster
from distributed.deploy.cluster import Cluster

from ...schema.hosts import host_name
from ...schema.machines import ComingHost

logger = logging.getLogger(__name__)

AGAIN_S = 2.0
"""The delay before a nanny that has exited is replaced. It is doubled each time, up to ``AGAIN_AT_MOST_S``."""
AGAIN_AT_MOST_S = 30.0
_SETTLED_S = 60.0


class DurableCluster(LocalCluster):
    """A LocalCluster that replaces nannies that exit. Each nanny restarts its worker, and exits if it cannot."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._looked_after: dict[Any, asyncio.Task[None]] = {}
        self._problems: dict[Any, str] = {}
        self._wait_s: dict[Any, float] = {}
        self._tell: Callable[[list[ComingHost]], None] = lambda hosts: None
        super().__init__(*args, **kwargs)

    def watch_hosts(self, tell: Callable[[list[ComingHost]], None]) -> None:
        """Call ``tell(hosts)`` with the hosts that cannot be started, now and whenever this list changes."""
        self._tell = tell
        self._changed()

    def _update_worker_status(self, op: str, msg: Any) -> None:
        """Override SpecCluster's method, which would close the nanny of a worker that is gone."""
        Cluster._update_worker_status(self, op, msg)

    async def _correct_state_internal(self) -> None:
        try:
            await super()._correct_state_internal()
        finally:
            for name, nanny in self.workers.items():
                if nanny not in self._looked_after:
                    self._looked_after[nanny] = asyncio.create_task(self._look_after(name, nanny))

    async def _look_after(self, name: Any, nanny: Any) -> None:
        """Wait until a nanny has exited, and replace it if it is still wanted."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if nanny.status.name == "running":
            self._set_problem(name, "")
        await nanny.finished()
        if not self._is_wanted(name, nanny):
            return
        wait_s = AGAIN_S if loop.time() - began > _SETTLED_S else self._wait_s.get(name, AGAIN_S)
        self._wait_s[name] = min(2 * wait_s, AGAIN_AT_MOST_S)
        logger.warning("The nanny of %s has ended; it will be replaced in %g s", name, wait_s)
        self._set_problem(name, "its Dask worker could not be started (see the cluster's log)")
        await asyncio.sleep(wait_s)
        if self._is_wanted(name, nanny):
            del self.workers[name]
            try:
                await asyncio.shield(self._correct_state())  # must not be cancelled halfway
            except Exception:  # the new nanny has exited, too, which is handled like the first exit
                logger.exception("The host %s could not be started", name)
        self._looked_after.pop(nanny, None)

    def _is_wanted(self, name: Any, nanny: Any) -> bool:
        return self.workers.get(name) is nanny and name in self.worker_spec

    def _set_problem(self, name: Any, problem: str) -> None:
        if problem != self._problems.pop(name, ""):
            if problem:
                self._problems[name] = problem
            self._changed()
        elif problem:
            self._problems[name] = problem

    def _changed(self) -> None:
        self._tell([ComingHost(host_name(name), "waiting", problem) for name, problem in self._problems.items()])

    async def _close(self) -> None:
        for task in list(self._looked_after.values()):
            task.cancel()
        await asyncio.gather(*self._looked_after.values(), return_exceptions=True)
        await super()._close()
