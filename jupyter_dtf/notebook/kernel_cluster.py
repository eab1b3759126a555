"""This notebook's cluster, as its kernel and its page tell each other.

In JupyterLab the page keeps the cluster's name with the notebook and sets ``client.chosen``'s variable whenever the
kernel has started, before the first cell runs, and when a person chooses another. What code chooses, the page is told.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from ..client import chosen

OWNED_VARIABLE = "JUPYTER_DTF_CLUSTER_OWNED"
"""The page sets it with ``chosen.VARIABLE``: to the same name where the notebook's own code started the cluster."""
COMM_TARGET = "jupyter_dtf:cluster"

_restarting = False


def choose(cluster: str, owned: bool) -> None:
    """The notebook's cluster is the one of this name now. ``owned``: it ends with the kernel."""
    if owned:
        _watch_for_restarts()
    _tell_page(cluster, owned)


def is_inherited(cluster: str) -> bool:
    """Whether this notebook's code has started it before the kernel was restarted, so that it ends with this one."""
    inherited = kernel() is not None and os.environ.get(OWNED_VARIABLE) == cluster != ""
    if inherited:
        _watch_for_restarts()
    return inherited


def outlives_kernel(cluster: str) -> bool:
    """Whether the kernel is only being restarted, and the page will tell the next one of the cluster."""
    return _restarting and OWNED_VARIABLE in os.environ and chosen.name() == cluster


def kernel() -> Any:
    """The kernel that this process is; None where it is none."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None)


def _watch_for_restarts() -> None:
    """Whether a kernel is restarted or ends is said in the request to shut down, and nowhere at its exit."""
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
    """Only a kernel in which the page has set the variables has a page that listens."""
    if kernel() is None or OWNED_VARIABLE not in os.environ:
        return
    os.environ[OWNED_VARIABLE] = cluster if owned else ""
    from comm import create_comm

    create_comm(target_name=COMM_TARGET, data={"name": cluster, "owned": owned}).close()
