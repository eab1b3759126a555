"""Ending a cluster directly, by its processes: for one that does not answer, or has died and left some behind."""

from __future__ import annotations

import contextlib
import logging
import os
import signal

from ...schema.api import ClusterState
from ..machine import family
from ..machine.processes import Handle
from . import connections
from .connections import Connection

logger = logging.getLogger(__name__)

WAIT_S = 3.0


def end_directly(connection: Connection) -> None:
    """End every process of a cluster on this machine at once, stopped ones too, and remove its directories.

    Other viewers see that this was asked for: the connection file says ``stopping`` before anything ends.
    """
    with contextlib.suppress(Exception):
        now = connections.read(connection.name)
        if now.created == connection.created:
            now.state = ClusterState.STOPPING
            connections.write(now)
    _kill(connection)
    if connection.token:
        if left := family.end(connection.token, wait_s=WAIT_S):
            logger.error("Processes of the cluster %s cannot be ended: %s", connection.name, left)
        else:
            family.remove(connection.directories)


def end_rest(connection: Connection) -> None:
    """A cluster process has died: end what it leaves. Most of that ends by itself."""
    if connection.token and not connection.is_alive:
        family.end(connection.token, wait_s=WAIT_S)
        family.remove(connection.directories)


def _kill(connection: Connection) -> None:
    """The cluster process itself, and its process group, which it leads."""
    if connection.pid in (os.getpid(), connection.started_by) or not connection.is_alive:
        return
    with contextlib.suppress(OSError):
        handle = Handle(connection.pid)
        try:
            if connection.is_alive and os.getpgid(connection.pid) == connection.pid:  # it, and no other by now
                handle.signal_group(signal.SIGKILL)
            handle.kill()
            handle.wait(WAIT_S)
        finally:
            handle.close()
