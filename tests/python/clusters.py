"""Waiting for what a cluster tells of itself."""

from __future__ import annotations

import threading
from collections.abc import Callable

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.api import ClusterInfo

from . import patience


def wait_for(cluster: dtf.Cluster, condition: Callable[[ClusterInfo], object]) -> ClusterInfo:
    """The cluster, once it is ready and it is so."""
    cluster.wait_ready()
    return wait_until(cluster, condition)


def wait_until(cluster: dtf.Cluster, condition: Callable[[ClusterInfo], object]) -> ClusterInfo:
    """The cluster, once it is so, ready or not."""
    changed = threading.Event()
    leave = session().do(lambda fleet: fleet.subscribe(changed.set))
    try:
        while not condition(info := cluster.info):
            assert changed.wait(patience.left_s()), info
            changed.clear()
    finally:
        session().do(lambda fleet: leave())
    return info
