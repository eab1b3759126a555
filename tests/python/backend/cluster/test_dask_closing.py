"""Closing a Dask cluster whose scheduler does not close cleanly."""

import asyncio
import logging
import socket
from typing import Any

import pytest
from distributed import Scheduler, SpecCluster, Status, Worker

from jupyter_dtf.backend.cluster.cluster_process import close_dask


async def a_cluster() -> Any:
    workers = {"w": {"cls": Worker, "options": {"dashboard": False}}}
    scheduler = {"cls": Scheduler, "options": {"dashboard": False, "port": 0}}
    return await SpecCluster(workers, scheduler, asynchronous=True)


def test_a_connection_that_is_cancelled_twice(caplog: pytest.LogCaptureFixture) -> None:
    async def program() -> None:
        silent = socket.create_server(("127.0.0.1", 0))  # accepts connections, but never sends anything
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        cluster = await a_cluster()
        pool = cluster.scheduler.rpc
        connecting = asyncio.ensure_future(pool.connect(address))
        close = pool.close

        async def close_after_removal() -> None:
            pool.remove(address)
            await asyncio.sleep(0)  # the timeout expires, but its task has not noticed yet
            await close()

        pool.close = close_after_removal
        while not pool._connecting:
            await asyncio.sleep(0)
        with caplog.at_level(logging.ERROR):
            await close_dask(cluster)
        assert not cluster.workers
        await asyncio.gather(connecting, return_exceptions=True)
        silent.close()
        pool.close = close
        await super(Scheduler, cluster.scheduler).close(timeout=0)
        cluster.status = Status.closed

    asyncio.run(program())
    assert "Cannot change state of expiring Timeout" in caplog.text


def test_an_error_while_there_are_workers_is_told() -> None:
    async def program() -> None:
        cluster = await a_cluster()
        scale = cluster.scale

        def refuse(count: int) -> None:
            raise OSError("cannot be scaled")

        cluster.scale = refuse
        with pytest.raises(OSError, match="cannot be scaled"):
            await close_dask(cluster)
        cluster.scale = scale
        cluster.status = Status.running
        await close_dask(cluster)

    asyncio.run(program())
