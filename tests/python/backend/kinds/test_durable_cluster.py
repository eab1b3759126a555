"""Local workers that end are replaced, even if Dask would already have given them up."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.config
import pytest

from jupyter_dtf.backend.kinds import durable_cluster
from jupyter_dtf.backend.kinds.local import LocalKind
from jupyter_dtf.schema.machines import ComingHost

OPTIONS = {"hosts": 1, "threads_per_host": 1, "memory_per_host_bytes": 0}


def test_a_worker_that_has_gone_and_a_nanny_that_has_ended_have_successors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_cluster, "AGAIN_S", 0.1)

    async def play() -> list[list[str]]:
        told: list[list[str]] = []

        def hear(hosts: list[ComingHost]) -> None:
            told.append([host.problem for host in hosts])

        cluster = await LocalKind().create(OPTIONS, None, tmp_path)
        cluster.watch_hosts(hear)
        try:
            cluster.scale(1)
            first = await _worker(cluster, lambda pid: True)
            (nanny,) = cluster.workers.values()
            os.kill(first, signal.SIGTERM)
            second = await _worker(cluster, lambda pid: pid != first)
            assert list(cluster.workers.values()) == [nanny], "its nanny has started the successor"
            await nanny.close()
            await _worker(cluster, lambda pid: pid != second)
        finally:
            await cluster.close()
        return told

    # Dask gives up a missing worker at once, as it would on a busy machine where a restart takes too long.
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "0 s"}):
        told = asyncio.run(asyncio.wait_for(play(), 120))
    assert [bool(problems) for problems in told] == [False, True, False], told


async def _worker(cluster: Any, is_meant: Callable[[int], bool]) -> int:
    """Return the process id of the worker once it satisfies ``is_meant`` and its nanny is known."""

    def found() -> list[int]:
        return [worker.pid for worker in cluster.scheduler.workers.values() if is_meant(worker.pid)]

    while not (found() and cluster.workers):
        await asyncio.sleep(0.05)
    return found()[0]
