"""Scales a cluster's number of hosts: to as many as its jobs need, and to the minimum after some time without a run.

Runs in the cluster process. The controller must agree before hosts are released, so that no host is taken from a run
that has just been submitted. A run submitted afterwards waits until the hosts have been requested again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import DtfError
from ..kinds.idle_release import Rest
from ..viewer.background import Background
from .reconnecting_link import HeldLink
from .starting_hosts import ComingTold

logger = logging.getLogger(__name__)


class Sizing:
    """Scales Dask's ``cluster``.

    ``hosts(jobs)`` returns how many hosts the jobs need. ``rest`` says when hosts are released and how many are kept;
    None if hosts are never released.
    """

    def __init__(self, cluster: Any, hosts: Callable[[Mapping[str, int]], int], rest: Rest | None) -> None:
        self._cluster = cluster
        self._hosts_for = hosts
        self._rest = rest
        self._wanted = 0
        self._is_busy = False
        self._rests = False
        self._timer: asyncio.TimerHandle | None = None
        self._lock = asyncio.Lock()
        self._background = Background()
        self._link: HeldLink | None = None
        self._coming: ComingTold | None = None

    def begin(self, link: HeldLink, coming: ComingTold, jobs: Mapping[str, int]) -> None:
        """Start scaling, first to all hosts that ``jobs`` need."""
        self._link, self._coming = link, coming
        self.look(jobs, is_busy=False)

    def look(self, jobs: Mapping[str, int], *, is_busy: bool) -> None:
        """Adapt to the controller's current jobs, and to whether any run is active or waiting."""
        if self._link is None:
            return
        self._wanted, self._is_busy = self._hosts_for(jobs), is_busy
        if is_busy and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._rests:
            self._scale(self._wanted)
            if self._rest is not None and not is_busy and self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(self._rest.idle_s, self._begin, self._go_to_rest)
        elif is_busy:
            self._begin(self._wake)

    def _begin(self, work: Callable[[], Any]) -> None:
        self._background.begin(work())

    def _scale(self, hosts: int) -> None:
        if hosts != len(self._cluster.worker_spec):
            self._cluster.scale(hosts)

    async def _go_to_rest(self) -> None:
        async with self._lock:
            self._timer = None
            assert self._rest is not None
            if self._rests or self._wanted <= self._rest.least or not await self._ask(rests=True):
                return
            if self._is_busy:  # a run has been submitted since the controller agreed
                await self._ask(rests=False)
                return
            self._rests = True
            logger.info("Nothing has run for %g s: %d hosts are kept", self._rest.idle_s, self._rest.least)
            self._scale(self._rest.least)

    async def _wake(self) -> None:
        async with self._lock:
            if not self._rests:
                return
            self._rests = False
            self._scale(self._wanted)
            assert self._coming is not None
            await self._coming.told()  # so that the controller knows which hosts the run waits for
            await self._ask(rests=False)

    async def _ask(self, *, rests: bool) -> bool:
        """Notify the controller, and return whether it agrees.

        It agrees to releasing hosts only while there is no run.
        """
        assert self._link is not None
        try:
            return bool(await self._link.request("rest", rests=rests))
        except DtfError:  # the cluster is ending
            return False
