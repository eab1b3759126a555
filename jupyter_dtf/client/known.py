"""Clusters and runs that there are: ``dtf.connect``, ``dtf.clusters``, ``dtf.run`` and ``dtf.runs``."""

from __future__ import annotations

from ..schema.api import ClusterState
from .cluster import Cluster
from .fit_run import held
from .run import Run
from .runs_frame import Runs
from .session import session


def connect(name: str) -> Cluster:
    """Hold a cluster that was started in the panel, by the command line or elsewhere. Raises NotFound."""
    return Cluster.connect(name)


def clusters() -> list[Cluster]:
    """All clusters of this user that are there, oldest first; ``repr`` says of one if it is not answering."""
    infos = session().do(lambda fleet: fleet.clusters())
    there = (ClusterState.STARTING, ClusterState.RUNNING)
    return [Cluster._held(info.name) for info in infos if info.state in there]


def run(run_id: str) -> Run:
    """Hold a run, live or past, by its id. Raises NotFound."""
    return held(session().hub.info(run_id))


def runs(*, archived: bool = False, deleted: bool = False) -> Runs:
    """All runs, live and past, newest first: a list, whose ``frame()`` is a DataFrame.

    With ``archived``, those that were put aside too; with ``deleted``, those alone that were deleted and can be
    restored.
    """
    infos = session().hub.runs(deleted=deleted)
    return Runs([info for info in infos if archived or deleted or not info.marks.archived])
