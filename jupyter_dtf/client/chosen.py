"""The name of this notebook's cluster: the one that its toolbar shows, ``dtf.cluster()`` gives and ``%dtf`` means.

It stands in an environment variable, so that it holds for this process and for the programs that it starts.
"""

from __future__ import annotations

import os

from . import surroundings

VARIABLE = "JUPYTER_DTF_CLUSTER"


def name() -> str:
    """The name of this notebook's cluster, which need not be there any more; empty where it has none."""
    return os.environ.get(VARIABLE, "")


def choose(cluster: str, *, owned: bool = False) -> None:
    """From now on it is the cluster of this name. ``owned``: it ends with the process."""
    if cluster == name() and not owned:
        return
    os.environ[VARIABLE] = cluster
    surroundings.here().choose(cluster, owned)


def forget(cluster: str) -> None:
    """The notebook has no cluster any more, if it was the one of this name."""
    if cluster and name() == cluster:
        choose("")
