"""Waits until the published state of a cluster meets a condition."""

from __future__ import annotations

import threading
from collections.abc import Callable

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.api import ClusterInfo

from . import patience


def wait_for(cluster: dtf.Cluster, condition: Callable[[ClusterInfo], object]) -> ClusterInfo:
    """Wait until the cluster is ready and the condition holds. Return the cluster's state."""
    cluster.wait_ready()
    return wait_until(cluster, condition)


def wait_until(cluster: dtf.Cluster, condition: Callable[[ClusterInfo], object]) -> ClusterInfo:
    """Wait until the condition holds, whether or not the cluster is ready. Return the cluster's state."""
    changed = threading.Event()
    leave = session().do(lambda fleet: fleet.subscribe(changed.set))
    try:
        while not condition(info := cluster.info):
            assert changed.wait(patience.left_s()), info
            changed.clear()
    finally:
        session().do(lambda fleet: leave())
    return info
