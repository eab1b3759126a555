"""Kills a cluster's processes directly if the cluster does not respond, or has died and left processes behind."""

from __future__ import annotations

import contextlib
import logging
import os
import signal

from ...schema.api import ClusterState
from ..machine import cluster_processes
from ..machine.processes import Handle
from . import connections
from .connections import Connection

logger = logging.getLogger(__name__)

WAIT_S = 3.0


def end_directly(connection: Connection) -> None:
    """Immediately kill every process of a cluster on this machine, even stopped ones, and remove its directories.

    The connection file is set to ``stopping`` first, so that other viewers see that the end was requested.
    """
    with contextlib.suppress(Exception):
        now = connections.read(connection.name)
        if now.created == connection.created:
            now.state = ClusterState.STOPPING
            connections.write(now)
    _kill(connection)
    if connection.token:
        if left := cluster_processes.end(connection.token, wait_s=WAIT_S):
            logger.error("Processes of the cluster %s cannot be killed: %s", connection.name, left)
        else:
            cluster_processes.remove(connection.directories)


def end_rest(connection: Connection) -> None:
    """Kill the processes that a dead cluster process has left behind. Most of them exit on their own."""
    if connection.token and not connection.is_alive:
        cluster_processes.end(connection.token, wait_s=WAIT_S)
        cluster_processes.remove(connection.directories)


def _kill(connection: Connection) -> None:
    """Kill the cluster process and, if it leads a process group, the group.

    Nothing is killed if the process is on another machine, or if the file still names the process that started it.
    """
    is_ours = connection.pid in (os.getpid(), connection.started_by)
    if is_ours or connection.is_elsewhere or not connection.is_alive:
        return
    with contextlib.suppress(OSError):
        handle = Handle(connection.pid)
        try:
            if connection.is_alive and os.getpgid(connection.pid) == connection.pid:  # the id has not been reused
                handle.signal_group(signal.SIGKILL)
            handle.kill()
            handle.wait(WAIT_S)
        finally:
            handle.close()
