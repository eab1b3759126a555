"""``dtf.cluster()``: the cluster of this notebook, started where there is none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..client import chosen, wording
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
"""What was given last: the same object as long as it is the same cluster."""


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
    """This notebook's cluster: the one that its toolbar shows and that ``%dtf`` means.

    It is chosen by *Connect* in the panel, in the notebook's toolbar, by ``%dtf use`` or here by its ``name``, and
    stays chosen when the kernel is restarted. Where there is none, or it has ended, one is started as ``dtf.Cluster``
    starts it with the other arguments, ``options`` included (two workers on this machine, if nothing is said), and is
    this notebook's from then on. Such a one ends with the kernel, but not when that is restarted in JupyterLab.

    A ``with`` block leaves it running. Outside of a notebook it is the cluster that the environment variable
    JUPYTER_DTF_CLUSTER names, or one that ends with the process.

    Raises NotFound for a name that no cluster has, and what ``dtf.Cluster`` and ``dtf.connect`` raise.
    """
    given = {"jobs": jobs is not None, "backend": backend != DEFAULT_KIND, "design": design is not None, "keep": keep,
             "grace_s": grace_s != GRACE_S, **dict.fromkeys(options, True)}  # fmt: skip
    if name:
        if any(given.values()):
            raise InvalidInput(
                "A cluster that is there is chosen by its name alone; `dtf.Cluster(name=...)` starts one with a name. "
                f"Received beside {name!r:.100}: {', '.join(each for each, is_given in given.items() if is_given)}"
            )
        return use(_connect(name))
    if (found := current()) is not None:
        if jobs is not None and (wanted := as_jobs(jobs)) != found.jobs:
            say(
                f"This notebook's cluster {found.name} has {wording.jobs(found.jobs)}, not {wording.jobs(wanted)}: "
                "scale it, or choose another in the toolbar."
            )
        return found
    before = chosen.name()
    made = Cluster(jobs, backend=backend, design=design, keep=keep, grace_s=grace_s, **options)
    started = use(made, owned=not keep)
    if before not in ("", started.name):
        say(f"The cluster {before} is not running any more: {started.name} is started for this notebook.")
    return started


def current() -> Cluster | None:
    """This notebook's cluster if it has one that runs or starts. Raises as ``dtf.connect``."""
    name = chosen.name()
    try:
        state = session().do(lambda fleet: fleet.cluster(name)).state if name else ClusterState.STOPPED
    except NotFound:
        return None
    return _connect(name) if state in (ClusterState.STARTING, ClusterState.RUNNING) else None


def use(cluster: Cluster, *, owned: bool = False) -> Cluster:
    """From now on, this is the notebook's cluster. ``owned``: it was started here and ends with the kernel."""
    global _held
    _held = cluster
    chosen.choose(cluster.name, owned=owned)
    return cluster


def _connect(name: str) -> Cluster:
    global _held
    if _held is None or _held.name != name:
        _held = Cluster.connect(name)
        if is_inherited(name):
            _held.end_with_process()
    return _held
