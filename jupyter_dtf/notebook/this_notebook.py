"""``dtf.cluster()``: the cluster of this notebook, which is started if there is none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..client import notebook_cluster, wording
from ..client.cluster import Cluster
from ..client.session import session
from ..client.waiting import say
from ..errors import InvalidInput, NotFound
from ..schema.api import ClusterState
from ..schema.cluster import as_jobs
from ..schema.cluster_request import DEFAULT_KIND, GRACE_S
from ..schema.design import Design
from .kernel_cluster import is_inherited

_held: Cluster | None = None
"""The object that was returned last, which is returned again for the same cluster."""


def cluster(
    name: str = "",
    *,
    jobs: Mapping[str, int] | int | None = None,
    backend: str = DEFAULT_KIND,
    design: Design | str | os.PathLike[str] | None = None,
    keep: bool = False,
    grace_s: float = GRACE_S,
    **options: Any,
) -> Cluster:
    """Return this notebook's cluster, the one that its toolbar shows and ``%dtf`` uses; start one if there is none.

    The cluster is chosen with *Connect* in the panel, in the notebook's toolbar, with ``%dtf use``, or here by its
    ``name``. It remains chosen when the kernel is restarted. If there is none, or it has ended, a new one is started,
    which ends with the kernel, but survives a kernel restart in JupyterLab. A ``with`` block leaves it running.

    Outside a notebook, it is the cluster that the environment variable JUPYTER_DTF_CLUSTER names, or a new one that
    ends with the process. If the notebook's cluster has jobs other than those requested, a message is printed.

    Args:
        name: Use this existing cluster from now on.
        jobs: See ``dtf.Cluster``. This and all further arguments only apply if a cluster is started.
        backend: See ``dtf.Cluster``.
        design: See ``dtf.Cluster``.
        keep: See ``dtf.Cluster``.
        grace_s: See ``dtf.Cluster``.
        **options: See ``dtf.Cluster``.

    Returns:
        The cluster.

    Raises:
        NotFound: If there is no cluster with this name.
        InvalidInput: If an argument is invalid.
        Unavailable: If the backend cannot be used here.

    Example:
        >>> cluster = dtf.cluster()
        >>> cluster.fit(model, x, y)
    """
    given = {"jobs": jobs is not None, "backend": backend != DEFAULT_KIND, "design": design is not None, "keep": keep,
             "grace_s": grace_s != GRACE_S, **dict.fromkeys(options, True)}  # fmt: skip
    if name:
        if any(given.values()):
            raise InvalidInput(
                f"`name` chooses an existing cluster and must be given alone, got {name!r:.100} and "
                f"{', '.join(each for each, is_given in given.items() if is_given)}. `dtf.Cluster(name=...)` starts "
                "one with a name",
                field="name",
            )
        return use(_connect(name))
    if (found := current()) is not None:
        if jobs is not None and (wanted := as_jobs(jobs)) != found.jobs:
            say(
                f"This notebook's cluster {found.name} has {wording.jobs(found.jobs)}, not {wording.jobs(wanted)}: "
                "scale it, or choose another one in the toolbar."
            )
        return found
    before = notebook_cluster.name()
    made = Cluster(jobs, backend=backend, design=design, keep=keep, grace_s=grace_s, **options)
    started = use(made, owned=not keep)
    if before not in ("", started.name):
        say(f"The cluster {before} is no longer running. Started {started.name} for this notebook.")
    return started


def current() -> Cluster | None:
    """Return this notebook's cluster if it has one that is running or starting; otherwise None.

    Raises the same errors as ``dtf.connect``.
    """
    name = notebook_cluster.name()
    try:
        state = session().do(lambda fleet: fleet.cluster(name)).state if name else ClusterState.STOPPED
    except NotFound:
        return None
    return _connect(name) if state in (ClusterState.STARTING, ClusterState.RUNNING) else None


def use(cluster: Cluster, *, owned: bool = False) -> Cluster:
    """Make ``cluster`` the notebook's cluster. ``owned``: whether it was started here and ends with the kernel."""
    global _held
    _held = cluster
    notebook_cluster.choose(cluster.name, owned=owned)
    return cluster


def _connect(name: str) -> Cluster:
    global _held
    if _held is None or _held.name != name:
        _held = Cluster.connect(name)
        if is_inherited(name):
            _held.end_with_process()
    return _held
