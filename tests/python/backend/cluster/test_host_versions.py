"""Hosts whose versions differ from the cluster's: real Dask workers that have, or claim to have, other versions."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.cluster.host_versions import HostVersions
from jupyter_dtf.notebook.display import cluster_bundle

from ... import patience

pytestmark = pytest.mark.module_directories

OWN = {"jupyter_dtf": "0.4.0", "Python": "3.11.4", "TensorFlow": "2.21.0", "Keras": ""}

GUEST = """
import asyncio, sys
from jupyter_dtf.schema import protocol
protocol.OLDEST = protocol.PROTOCOL = int(sys.argv[2])
from distributed import Worker
from jupyter_dtf.backend.viewer import connections
from jupyter_dtf.backend.viewer.link import security_of

async def live():
    cluster = connections.read("shared")
    security = security_of(cluster)
    async with Worker(cluster.address, name="guest", nthreads=1, host="127.0.0.1", security=security,
                      local_directory=sys.argv[1]) as worker:
        await worker.finished()

asyncio.run(live())
"""


@contextmanager
def guest(directory: Path, *, protocol: int = 1, path: str = "") -> Iterator[None]:
    """Run a Dask worker that joins the shared cluster by itself; ``path`` comes first in its ``PYTHONPATH``."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [path, environment.get("PYTHONPATH", "")]))
    process = subprocess.Popen([sys.executable, "-c", GUEST, str(directory), str(protocol)], env=environment)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def its_host_is_there(cluster: dtf.Cluster) -> None:
    """Wait for the cluster's own host. A cluster is ready before its hosts are, and the guest must not come first."""
    patience.until(lambda: cluster.wait_ready().info.hosts, lambda: cluster.info)


def told(cluster: dtf.Cluster) -> list[str]:
    return [warning for warning in cluster.info.warnings if "ost guest" in warning]


def test_a_host_of_other_versions_is_named_with_both(cluster: dtf.Cluster, tmp_path: Path) -> None:
    installed = tmp_path / "keras-9.9.9.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: keras\nVersion: 9.9.9\n")
    problem = f"Keras 9.9.9 instead of {metadata.version('keras')}"
    its_host_is_there(cluster)
    with guest(tmp_path, path=str(tmp_path)):
        patience.until(lambda: told(cluster), lambda: cluster.info)
        assert told(cluster) == [
            f"Host guest has {problem}. Programs may fail or give different results there: install the same versions "
            "on all hosts"
        ]
        problems = {host.name: host.problem for host in cluster.info.hosts}
        assert problems.pop("guest") == problem
        assert list(problems.values()) == [""]
        assert problem in cluster_bundle(cluster)["text/html"]
    patience.until(lambda: not told(cluster), lambda: cluster.info)


def test_a_host_of_another_protocol_is_refused(cluster: dtf.Cluster, tmp_path: Path) -> None:
    its_host_is_there(cluster)
    with guest(tmp_path, protocol=9):
        patience.until(lambda: told(cluster), lambda: cluster.info)
        (refusal,) = told(cluster)
        assert refusal.startswith(f"The host guest (jupyter_dtf {dtf.__version__}) is not used: it speaks protocol 9, ")
        assert refusal.endswith(f" 1. Install jupyter_dtf {dtf.__version__} there")
        assert "guest" not in [host.name for host in cluster.info.hosts]
        run = cluster.run(lambda args, ctx: ctx.rank)
        assert "guest" not in {task.host for task in run.info.tasks}
    patience.until(lambda: not told(cluster), lambda: cluster.info)


@pytest.mark.parametrize(
    ("versions", "problem"),
    [
        (OWN, ""),
        ({}, ""),  # from a release that did not report versions
        ({**OWN, "Python": "3.11.9"}, ""),
        ({**OWN, "Python": "3.12.4"}, "Python 3.12.4 instead of 3.11.4"),
        ({**OWN, "TensorFlow": ""}, "TensorFlow (none) instead of 2.21.0"),
        ({**OWN, "TensorFlow": "2.20.0", "Keras": "3"}, "TensorFlow 2.20.0 instead of 2.21.0"),
        ({**OWN, "numpy": "3"}, ""),  # a newer host may report more
    ],
)
def test_what_differs(versions: Mapping[str, str], problem: str) -> None:
    hosts = HostVersions(OWN)
    hosts.tells("a", "a", versions)
    assert hosts.problem("a") == problem
    hosts.gone("a")
    assert hosts.problem("a") == ""


def test_what_the_cluster_does_without_is_compared_among_hosts() -> None:
    hosts = HostVersions(OWN)
    for name, keras in (("a", "3.15.1"), ("b", "3.15.1"), ("c", "3.14.0"), ("d", "3.14.0"), ("e", "3.15.1")):
        hosts.tells(name, name, {**OWN, "Keras": keras})
    assert hosts.warnings == [
        "Hosts c, d have Keras 3.14.0 instead of 3.15.1. Programs may fail or give different results there: "
        "install the same versions on all hosts"
    ]
