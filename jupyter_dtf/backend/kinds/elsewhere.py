"""A Dask cluster whose scheduler runs on another machine, by itself, and is this cluster's alone.

What the cluster process needs of it, for kinds to derive from; and how the controller is put onto its scheduler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import cloudpickle
from distributed.core import rpc

from ...errors import Unavailable
from ...schema.machines import ComingHost

PACKAGE = "jupyter_dtf"
LOOK_S, LOOKS = 0.5, 12
"""Between two questions to a manager why a scheduler has gone, and how often it is asked."""


class ElsewhereCluster:
    """``address`` is where its scheduler is reached from this machine, ``security`` what it is reached with."""

    def __init__(self, address: str, security: Any) -> None:
        self.scheduler_address = address
        self.security = security
        self.scheduler_comm = rpc(address, connection_args=security.get_connection_args("client"))
        self.worker_spec = range(0)
        self._tell: Callable[[list[ComingHost]], None] = lambda hosts: None

    abandon: Callable[[Any], Awaitable[None]]
    """A function of a module, called with the scheduler on its machine when the cluster process is no more: ends it."""

    def scale(self, n: int) -> None:
        """So many workers from now on."""
        self.worker_spec = range(n)

    def watch_hosts(self, tell: Callable[[list[ComingHost]], None]) -> None:
        """Call ``tell(hosts)`` now, and whenever one of them has come further."""
        self._tell = tell

    async def last_words(self) -> str:
        """Why its scheduler does not answer any more, asked for once that is so. Its manager may learn it later."""
        for _ in range(LOOKS):
            if words := await self.words_of_end():
                return words
            await asyncio.sleep(LOOK_S)
        return f"The scheduler at {self.scheduler_address} does not answer any more"

    async def words_of_end(self) -> str:
        """What its manager says of a scheduler that has gone; empty as long as that says nothing."""
        return ""

    async def close(self) -> None:
        """End it all, and wait until that is so."""
        await self.scheduler_comm.close_rpc()


async def register(cluster: Any, plugin: Any) -> None:
    """Install a SchedulerPlugin wherever the scheduler runs. Raises Unavailable where it cannot be."""
    try:
        await cluster.scheduler_comm.register_scheduler_plugin(
            plugin=cloudpickle.dumps(plugin), name=plugin.name, idempotent=False
        )
    except ModuleNotFoundError as error:
        if (error.name or str(error)).partition(".")[0].strip("'") not in (PACKAGE, f"No module named '{PACKAGE}"):
            raise
        raise Unavailable(
            "There is no jupyter_dtf where the scheduler runs: put jupyter-dtf[cpu] or jupyter-dtf[gpu] into the image "
            "or the environment of its scheduler and its workers"
        ) from None
