"""Clusters of this user that are gone and have left their connection file: found, and cleared away."""

from __future__ import annotations

import contextlib

from ...errors import NotFound
from ...schema.api import ClusterState
from . import connections, ending
from .connections import Connection

_GONE = (ClusterState.FAILED, ClusterState.LOST)


def find() -> list[Connection]:
    """Those whose process is not there, oldest first."""
    left = [each for each in connections.read_all().values() if each.state in _GONE or not each.is_alive]
    return sorted(left, key=lambda each: each.created)


def in_words(connection: Connection) -> str:
    """What has become of it."""
    why = connection.message or "its process is gone"
    return f"the cluster {connection.name}: {why} ({connections.path_of(connection.name)})"


def clear(connection: Connection) -> bool:
    """End what is left of one and remove its files. Returns whether it was still the one that was found."""
    with contextlib.suppress(NotFound):
        now = connections.read(connection.name)
        if now.created == connection.created and (now.state in _GONE or not now.is_alive):
            ending.end_rest(now)
            connections.forget(now.name)
            return True
    return False


def living_tokens() -> list[str]:
    """What the processes of those that live are known by."""
    return [each.token for each in connections.read_all().values() if each.token and each.is_alive]
