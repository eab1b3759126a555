"""The name of this notebook's cluster: the one its toolbar shows, ``dtf.cluster()`` returns and ``%dtf`` uses.

It is kept in an environment variable, so it applies to this process and to the programs that it starts.
"""

from __future__ import annotations

import os

from . import display_hooks

VARIABLE = "JUPYTER_DTF_CLUSTER"


def name() -> str:
    """Return the name of this notebook's cluster, which may no longer exist; empty if it has none."""
    return os.environ.get(VARIABLE, "")


def choose(cluster: str, *, owned: bool = False) -> None:
    """Make ``cluster`` the notebook's cluster. ``owned``: whether the cluster ends with this process."""
    if cluster == name() and not owned:
        return
    os.environ[VARIABLE] = cluster
    display_hooks.here().choose(cluster, owned)


def forget(cluster: str) -> None:
    """If ``cluster`` is the notebook's cluster, clear the notebook's choice."""
    if cluster and name() == cluster:
        choose("")
