"""Finds and cleans up clusters of this user that are gone but have left their connection files."""

from __future__ import annotations

import contextlib

from ...errors import NotFound, Unavailable
from ...schema.api import ClusterState
from . import connections, ending
from .connections import Connection

_GONE = (ClusterState.FAILED, ClusterState.LOST)


def find() -> list[Connection]:
    """Return the connection files of clusters whose process is gone, oldest cluster first."""
    left = [each for each in connections.read_all().values() if each.state in _GONE or not each.is_alive]
    return sorted(left, key=lambda each: each.created)


def in_words(connection: Connection) -> str:
    """Return a sentence that says what happened to a cluster."""
    why = connection.message or "its process is gone"
    return f"the cluster {connection.name}: {why} ({connections.path_of(connection.name)})"


def clear(connection: Connection) -> bool:
    """Kill the remaining processes of a cluster and remove its files.

    Returns False if another cluster now has the same name, or the connection file can no longer be read.
    """
    with contextlib.suppress(NotFound, Unavailable):
        now = connections.read(connection.name)
        if now.created == connection.created and (now.state in _GONE or not now.is_alive):
            ending.end_rest(now)
            connections.forget(now.name)
            return True
    return False


def living_tokens() -> list[str]:
    """Return the tokens of all live clusters."""
    return [each.token for each in connections.read_all().values() if each.token and each.is_alive]
