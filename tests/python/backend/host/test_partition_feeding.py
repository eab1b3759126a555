"""How a host sends its tasks the partitions that a real Dask worker holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dask import delayed
from distributed import Client, LocalCluster, WorkerPlugin

from jupyter_dtf.backend.host import partition_feeding
from jupyter_dtf.backend.task.fit.sources import partitions
from jupyter_dtf.client.sources.dask_collections import source_of
from jupyter_dtf.schema.partitions import PassRequest

LONG, SHORT = b"x" * 10_000, b"x"


class Host(WorkerPlugin):
    """A plugin that answers tasks from within a Dask worker, as a host does."""

    name = "host"

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def setup(self, worker: Any) -> None:
        self.feeding = partition_feeding.Feeding(worker, self._directory, "test")
        self.feeding.start()

    async def teardown(self, worker: Any) -> None:
        await self.feeding.close()


def test_messages_of_strings_are_as_large_as_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_feeding, "PIECE_BYTES", 50_000)
    parts = [delayed(np.array([word] * 20, object)) for word in (SHORT, LONG, SHORT)]
    source = source_of(parts, None, None, "x")
    assert source is not None
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address=None) as local,
        Client(local) as client,
    ):
        client.register_plugin(Host(tmp_path))
        held = source.compute_on(client)
        (path,) = map(str, tmp_path.iterdir())
        described = partitions._ask(path, PassRequest("run", "x", source.collection, 0, 5, 0, 1))
        request = PassRequest("run", "x", source.collection, 0, 5, 0, 1, None, described)
        messages = [leaves[0].tolist() for leaves, _ in partitions._chunks(path, request)]
        held.release()
    assert [word for message in messages for word in message] == [SHORT] * 20 + [LONG] * 20 + [SHORT] * 20
    assert [len(message) for message in messages] == [20, 5, 5, 5, 5, 20]
