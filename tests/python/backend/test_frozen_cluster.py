"""A cluster process that is stopped (SIGSTOP) is shown as such and can be ended by clients, on real clusters."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.viewer import connections
from jupyter_dtf.errors import ClusterLost

from ..patience import left_s
from .test_frozen import begin, freeze, processes, rank, until, wait_for_end


def shell(*words: str) -> str:
    command = [sys.executable, "-m", "jupyter_dtf.cli", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=left_s()).stdout


def test_a_stopped_cluster_is_shown_as_silent_and_ended_by_the_command_line(leave_session: None) -> None:
    cluster = dtf.Cluster(jobs={"worker": 1}, name="ice", keep=True).wait_ready()
    until("ice", lambda info: bool(info.hosts) and info.hosts[0].warm)
    known = processes("ice")
    freeze(known["cluster"])
    silent = until("ice", lambda info: info.silent_s > 0)
    assert silent.state.value == "running"
    with pytest.raises(ClusterLost, match=r"has not responded for \d+ s.*`jupyter dtf stop ice`"):
        cluster.run(rank)
    with pytest.raises(ClusterLost, match="has not responded"):
        dtf.connect("ice")
    assert [each.name for each in dtf.clusters()] == ["ice"]
    assert re.fullmatch(r"<Cluster ice: not responding for \d+ s, local, 1 worker>", repr(dtf.clusters()[0]))

    os.kill(known["cluster"], signal.SIGCONT)  # as if it had only been busy
    until("ice", lambda info: info.silent_s == 0)
    assert cluster.run(rank).result() == [0]

    freeze(known["cluster"])
    assert re.search(r"^ice +not responding for \d+ s ", shell("list"), re.MULTILINE)
    assert shell("stop", "ice") == "The cluster ice has ended.\n"
    wait_for_end(list(known.values()))
    assert connections.read_all() == {}


def test_stopping_a_run_of_a_stopped_cluster_ends_the_cluster(leave_session: None) -> None:
    cluster = dtf.Cluster(jobs={"worker": 1}, name="running", keep=True)
    run = begin(cluster)
    known = processes("running")
    freeze(known["cluster"])
    run.stop()
    assert run.status == "lost"
    assert "did not respond when its run was stopped, and was killed" in run.info.message
    wait_for_end([*known.values(), run.info.tasks[0].pid])
    assert cluster.status == "lost"
    assert " lost " in shell("list")
    assert shell("stop", "running") == "The cluster running was lost and has been removed.\n"
    assert connections.read_all() == {}
