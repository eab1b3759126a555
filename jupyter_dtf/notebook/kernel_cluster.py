"""Keeps the notebook's cluster in sync between its kernel and its page.

In JupyterLab the page stores the cluster's name with the notebook. The page sets the environment variable of
``client.notebook_cluster`` whenever the kernel has started, before the first cell runs, and when the user chooses
another cluster. When code chooses a cluster, the kernel notifies the page.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from ..client import notebook_cluster

OWNED_VARIABLE = "JUPYTER_DTF_CLUSTER_OWNED"
"""A variable that the page sets along with ``notebook_cluster.VARIABLE``. It has the same value if the notebook's own
code started the cluster.
"""
COMM_TARGET = "jupyter_dtf:cluster"

_restarting = False


def choose(cluster: str, owned: bool) -> None:
    """Make ``cluster`` the notebook's cluster. ``owned``: whether the cluster ends with the kernel."""
    if owned:
        _watch_for_restarts()
    _tell_page(cluster, owned)


def is_inherited(cluster: str) -> bool:
    """Return whether this notebook's code started the cluster before a kernel restart.

    If so, the cluster ends with the current kernel.
    """
    inherited = kernel() is not None and os.environ.get(OWNED_VARIABLE) == cluster != ""
    if inherited:
        _watch_for_restarts()
    return inherited


def outlives_kernel(cluster: str) -> bool:
    """Return whether the kernel is only being restarted, and the page will pass the cluster to the next kernel."""
    return _restarting and OWNED_VARIABLE in os.environ and notebook_cluster.name() == cluster


def kernel() -> Any:
    """Return the kernel of this process; None if it is not a kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None)


def _watch_for_restarts() -> None:
    """Watch shutdown requests, because only they state whether the kernel is being restarted."""
    running = kernel()
    if running is None or "do_shutdown" in vars(running):
        return
    shut_down = running.do_shutdown

    def do_shutdown(restart: bool) -> Any:
        global _restarting
        _restarting = bool(restart)
        return shut_down(restart)

    running.do_shutdown = do_shutdown


def _tell_page(cluster: str, owned: bool) -> None:
    """Notify the page. A page listens only if it has set the variables in this kernel."""
    if kernel() is None or OWNED_VARIABLE not in os.environ:
        return
    os.environ[OWNED_VARIABLE] = cluster if owned else ""
    from comm import create_comm

    create_comm(target_name=COMM_TARGET, data={"name": cluster, "owned": owned}).close()
