"""Forwards the Dask cluster's reports on starting hosts to the controller and to viewers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...errors import ClusterLost, DtfError
from ...schema.base import convert, to_plain
from ...schema.machines import ComingHost
from ..kinds.base import ENDED
from .reconnecting_link import AGAIN_S, HeldLink

logger = logging.getLogger(__name__)


class ComingTold:
    """Forwards ``cluster``'s reports, if it makes any (``Kind.create``), from the cluster process to the controller."""

    def __init__(self, cluster: Any, link: HeldLink) -> None:
        self._link = link
        self._hosts: list[ComingHost] | None = None
        self._telling: asyncio.Task[None] | None = None
        if hasattr(cluster, "watch_hosts"):
            cluster.watch_hosts(self._on_change)

    def _on_change(self, hosts: list[ComingHost]) -> None:
        self._hosts = hosts
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def told(self) -> None:
        """Wait until the controller has received all current reports."""
        if self._telling is not None:
            await asyncio.shield(self._telling)

    async def _tell(self) -> None:
        while self._hosts is not None:
            hosts, self._hosts = self._hosts, None
            try:
                await self._link.request("coming", hosts=[to_plain(host) for host in hosts])
            except ClusterLost:
                if self._link.is_over:  # the cluster is ending
                    return
                self._hosts = hosts if self._hosts is None else self._hosts
                await asyncio.sleep(AGAIN_S)
            except DtfError as error:
                logger.warning("The starting hosts could not be reported: %s", error)


class ComingHosts:
    """The hosts that the cluster process has reported as starting and that have not arrived. Used in the controller.

    ``arrived()`` returns the names of the hosts that have arrived.
    """

    def __init__(self, arrived: Callable[[], set[str]]) -> None:
        self._arrived = arrived
        self._told: list[ComingHost] = []

    def take(self, hosts: Iterable[Mapping[str, Any]]) -> None:
        """Store the cluster process's report."""
        self._told = [convert(host, ComingHost) for host in hosts]

    @property
    def hosts(self) -> list[ComingHost]:
        """The reported hosts, except those that have arrived."""
        names = self._arrived()
        return [host for host in self._told if host.name not in names]

    @property
    def are_expected(self) -> bool:
        """Whether any of the hosts is starting and has not failed, so a run should wait for it."""
        return any(not host.problem for host in self.hosts)

    @property
    def warnings(self) -> list[str]:
        """Warnings about hosts that have failed."""
        return [
            f"Host {host.name} cannot be used{'' if host.step == ENDED else ', and is retried'}: {host.problem}"
            for host in self.hosts
            if host.problem
        ]
