"""The base class of Dask clusters that have their own scheduler, which runs independently on another machine.

``register`` installs the controller on a scheduler.
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
"""The interval in seconds and the maximum number of the queries that ask the cluster's manager, such as a gateway, why
the scheduler is gone."""


class ElsewhereCluster:
    """A cluster with a scheduler on another machine. This process connects to it at ``address``, with ``security``."""

    def __init__(self, address: str, security: Any) -> None:
        self.scheduler_address = address
        self.security = security
        self.scheduler_comm = rpc(address, connection_args=security.get_connection_args("client"))
        self.worker_spec = range(0)
        self._tell: Callable[[list[ComingHost]], None] = lambda hosts: None

    abandon: Callable[[Any], Awaitable[None]]
    """A module-level function that shuts down the scheduler, called on its machine once the cluster process is gone."""

    def scale(self, n: int) -> None:
        """Set the number of workers."""
        self.worker_spec = range(n)

    def watch_hosts(self, tell: Callable[[list[ComingHost]], None]) -> None:
        """Call ``tell(hosts)`` whenever a host makes progress or fails, as ``Kind.create`` describes."""
        self._tell = tell

    async def last_words(self) -> str:
        """Return the reason why the scheduler no longer responds. Retries, because its manager may not know it yet."""
        for _ in range(LOOKS):
            if words := await self.words_of_end():
                return words
            await asyncio.sleep(LOOK_S)
        return f"The scheduler at {self.scheduler_address} no longer responds"

    async def words_of_end(self) -> str:
        """Return the reason why the scheduler is gone, according to its manager; empty if the manager knows none."""
        return ""

    async def close(self) -> None:
        """Shut down everything that belongs to this cluster, and wait until this is done."""
        await self.scheduler_comm.close_rpc()


async def register(cluster: Any, plugin: Any) -> None:
    """Install a SchedulerPlugin on the scheduler. Raises Unavailable if jupyter_dtf is not installed there."""
    try:
        await cluster.scheduler_comm.register_scheduler_plugin(
            plugin=cloudpickle.dumps(plugin), name=plugin.name, idempotent=False
        )
    except ModuleNotFoundError as error:
        if (error.name or str(error)).partition(".")[0].strip("'") not in (PACKAGE, f"No module named '{PACKAGE}"):
            raise
        raise Unavailable(
            "jupyter_dtf is not installed where the scheduler runs: install jupyter-dtf[cpu] or jupyter-dtf[gpu] in "
            "the image or the environment of the scheduler and its workers"
        ) from None
