from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_dtf.backend.cluster import saving, starting_hosts
from jupyter_dtf.backend.cluster.host_versions import HostVersions
from jupyter_dtf.backend.cluster.saving import Saving
from jupyter_dtf.backend.cluster.starting_hosts import ComingHosts, ComingTold
from jupyter_dtf.errors import ClusterLost
from jupyter_dtf.schema.machines import ComingHost
from jupyter_dtf.schema.protocol import Speech

from ...patience import left_s


def test_nobody_waits_for_a_host_that_has_come_and_cannot_be_used() -> None:
    versions = HostVersions({})
    coming = ComingHosts(lambda: {"here", *versions.refused})
    coming.take([{"name": name, "step": "starting Dask", "problem": ""} for name in ("here", "new")])
    assert [host.name for host in coming.hosts] == ["new"]
    assert coming.are_expected
    assert versions.refuses("tls://10.0.0.2:1", "new", Speech(protocol=99, oldest=99, release="9.0"))
    assert not coming.are_expected
    versions.gone("tls://10.0.0.2:1")
    assert coming.are_expected


class DroppedLink:
    """A link whose connection is lost during the first request."""

    is_over = False

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.has_told = asyncio.Event()
        self._has_dropped = False

    async def request(self, operation: str, **message: Any) -> None:
        if not self._has_dropped:
            self._has_dropped = True
            raise ClusterLost("the proxy has closed the connection")
        self.told.append(message)
        self.has_told.set()


async def test_hosts_that_start_are_told_again_after_a_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting_hosts, "AGAIN_S", 0.0)
    link: Any = DroppedLink()
    cluster = SimpleNamespace(watch_hosts=lambda tell: tell([ComingHost(name="a", step="queueing")]))
    coming = ComingTold(cluster, link)
    await asyncio.wait_for(coming.told(), left_s())
    assert [[host["name"] for host in message["hosts"]] for message in link.told] == [["a"]]


async def test_that_runs_are_not_saved_is_told_again_after_a_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "AGAIN_S", 0.0)
    link: Any = DroppedLink()
    archive: Any = SimpleNamespace(error="disk full", unsaved={"r1"})
    connection: Any = None
    Saving(archive, link, connection).look()
    await asyncio.wait_for(link.has_told.wait(), left_s())
    assert [message["runs"] for message in link.told] == [["r1"]]
