"""Tests of ``jupyter dtf doctor`` on this machine, and of how its findings are printed."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from pathlib import Path

import pytest

from jupyter_dtf import cli
from jupyter_dtf.backend.machine import cluster_processes, paths
from jupyter_dtf.backend.task.ports import guarded_port
from jupyter_dtf.backend.viewer import connections
from jupyter_dtf.backend.viewer.connections import Connection
from jupyter_dtf.commands import doctor
from jupyter_dtf.schema.api import ClusterState
from jupyter_dtf.schema.base import decode_json
from jupyter_dtf.schema.checkup import Checkup, Finding, HostCheckup, PairSpeed

TOKEN = secrets.token_hex(6)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the test its own directories, and start no process that imports TensorFlow."""
    monkeypatch.setattr(paths, "family_parents", lambda: [tmp_path / "machine", tmp_path / "shared"])
    monkeypatch.setattr(doctor, "_imported", lambda: ("", 0))


def crashed(tmp_path: Path) -> Connection:
    """Create what a cluster leaves behind if its process is killed. Return its connection."""
    done = subprocess.Popen(["true"])
    done.wait()
    connection = Connection(
        name="lost",
        kind="local",
        state=ClusterState.RUNNING,
        pid=done.pid,
        pid_created=time.time() - 9,
        created=time.time(),
        token=TOKEN,
    )
    connections.reserve(connection)
    os.close(cluster_processes.claim(tmp_path / "machine" / TOKEN))
    return connection


def told(capsys: pytest.CaptureFixture[str]) -> Checkup:
    return decode_json(capsys.readouterr().out, Checkup)


def test_what_a_crash_has_left_is_listed_and_then_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded_port, "why_not", lambda: "")
    crashed(tmp_path)
    assert cli.main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert f"WARNING  left over   the cluster lost: its process is gone ({connections.path_of('lost')})" in said
    assert f"WARNING  left over   {tmp_path}/machine/{TOKEN}, of a dead cluster" in said
    assert said.endswith("2 warnings. --clean removes the leftovers.\n")

    assert cli.main(["doctor", "--clean", "--json"]) == 0
    found = told(capsys)
    removed = [finding.text for host in found.hosts for finding in host.findings if finding.about == "left over"]
    assert [text[:8] for text in removed] == ["removed:"] * 2
    assert not (tmp_path / "machine" / TOKEN).exists() and "lost" not in connections.read_all()

    assert cli.main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "ok       left over   nothing" in said and said.endswith("\nNo problems were found.\n")


def test_a_cluster_that_lives_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claim = cluster_processes.claim(tmp_path / "shared" / TOKEN)
    cli.main(["doctor", "--clean"])
    assert "left over   nothing" in capsys.readouterr().out
    assert (tmp_path / "shared" / TOKEN).exists()
    os.close(claim)


def test_open_ports_and_a_tensorflow_that_cannot_be_imported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded_port, "why_not", lambda: "this system has no such sockets")
    monkeypatch.setattr(doctor, "_imported", lambda: ("TensorFlow and Keras cannot be imported: ImportError: x", 0))
    assert cli.main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "ERROR    TensorFlow  TensorFlow and Keras cannot be imported: ImportError: x\n" in said
    assert "WARNING  ports       other users can connect to TensorFlow's servers on this machine: this system" in said
    assert said.endswith("\n1 error and 1 warning.\n")


def test_a_checkup_of_a_cluster_reads_by_host() -> None:
    long = Finding(about="disk", text="It is full. " * 20, level="error")
    found = Checkup(
        cluster="lab",
        kind="ssh",
        findings=[Finding(about="ports", text="closed")],
        hosts=[HostCheckup(name="ada", address="10.0.0.1", interface="eth0", findings=[long])],
        network=[PairSpeed(source="ada", target="bert", bytes_per_second=117 << 20, latency_seconds=0.0002)],
    )
    lines = doctor.in_words(found, 100).splitlines()
    assert lines[:4] == [
        "Cluster lab (ssh), 1 host",
        "  ok       ports       closed",
        "",
        "Host ada (10.0.0.1 on eth0)",
    ]
    assert all(len(line) <= 100 for line in lines)
    assert lines[-4:] == ["FROM  TO    SENDS      ROUND TRIP", "ada   bert  117 MiB/s  200 µs", "", "1 error."]
