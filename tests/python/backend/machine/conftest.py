"""A fixture with a process that belongs to a cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from jupyter_dtf.backend.machine import cluster_processes


@pytest.fixture
def sleeper(token: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the cluster with the module's ``token``."""
    process = subprocess.Popen(["sleep", "1000"], env=cluster_processes.environment(token))
    yield process
    process.kill()
    process.wait()
