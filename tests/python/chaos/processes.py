"""Finds the processes of a cluster by their role, and sends them signals."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil

import jupyter_dtf as dtf
from jupyter_dtf.backend.host.warm_client import PID
from jupyter_dtf.backend.machine import cluster_processes
from jupyter_dtf.backend.machine.processes import Stat, stat_of
from jupyter_dtf.backend.viewer import connections

from .. import patience


def host_process(cluster: dtf.Cluster, name: str) -> int:
    """Return the id of the process of a Dask worker."""
    (found,) = [host for host in cluster.info.hosts if host.name == name]
    port = int(found.address.rpartition(":")[2])
    for process in psutil.Process(connections.read(cluster.name).pid).children(recursive=True):
        if any(each.laddr.port == port for each in process.net_connections("tcp") if each.status == "LISTEN"):
            return process.pid
    raise AssertionError(f"no process listens at {found.address}")


def warm_process(cluster: dtf.Cluster) -> int:
    """Return the id of the warm process, from which tasks are forked."""
    machine, _shared = directories(cluster)
    return int((machine / PID).read_text())


def directories(cluster: dtf.Cluster) -> tuple[Path, Path]:
    """Return the cluster's directory of files on this machine, and that of its shared memory."""
    machine, shared = map(Path, connections.read(cluster.name).directories)
    return machine, shared


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def announce(pid: int) -> None:
    """Announce to a Dask worker that its machine is about to be taken away."""
    os.kill(pid, signal.SIGTERM)


def freeze(pid: int) -> None:
    """Stop a process with SIGSTOP, and wait until it has stopped."""
    os.kill(pid, signal.SIGSTOP)
    patience.until(lambda: (stat := stat_of(pid)) is None or stat.is_stopped or stat.has_ended, f"{pid} is stopped")


def thaw(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)


def living(pids: set[int]) -> dict[int, Stat]:
    """Return the states of the processes that have not ended. A zombie has ended."""
    found = {pid: stat_of(pid) for pid in pids}
    return {pid: stat for pid, stat in found.items() if stat is not None and not stat.has_ended}


def left_of(token: str, where: tuple[Path, Path]) -> list[str]:
    """Return the processes and directories that are left of an ended cluster."""
    pids = [f"process {pid}: {stat}" for pid, stat in living(set(cluster_processes.members(token))).items()]
    return [*pids, *(str(path) for path in where if path.exists())]
