from __future__ import annotations

from jupyter_dtf.backend.cluster.host_versions import HostVersions
from jupyter_dtf.backend.cluster.starting_hosts import ComingHosts
from jupyter_dtf.schema.protocol import Speech


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
