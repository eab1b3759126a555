"""Finds existing clusters and runs: ``dtf.connect``, ``dtf.clusters``, ``dtf.run`` and ``dtf.runs``."""

from __future__ import annotations

from ..errors import InvalidInput
from ..schema.api import ClusterState
from ..schema.arguments import check_text
from .cluster import Cluster
from .fit_run import held
from .run import Run
from .runs_frame import Runs
from .session import session


def connect(name: str) -> Cluster:
    """Connect to a cluster that was started in the panel, on the command line or in another process.

    The cluster keeps running when this process ends.

    Args:
        name: The name of the cluster.

    Returns:
        The cluster, ready for runs.

    Raises:
        NotFound: If there is no cluster with this name.
        Unavailable: If the cluster failed to start, or runs an incompatible version of jupyter_dtf.
        ClusterLost: If the cluster has died or does not respond.

    Example:
        >>> cluster = dtf.connect("resnet")
    """
    return Cluster.connect(name)


def clusters() -> list[Cluster]:
    """List this user's clusters that are starting or running.

    Returns:
        The clusters, oldest first. Their ``repr`` shows whether they are responding.
    """
    infos = session().do(lambda fleet: fleet.clusters())
    there = (ClusterState.STARTING, ClusterState.RUNNING)
    return [Cluster._held(info.name) for info in infos if info.state in there]


def run(run_id: str) -> Run:
    """Look up a run, live or past, by its id.

    Args:
        run_id: The id of the run, as ``run.id`` and the dashboard show it.

    Returns:
        The run.

    Raises:
        NotFound: If there is no such run.
        InvalidInput: If ``run_id`` is not a string. To run a function, use ``cluster.run``.
    """
    if callable(run_id):
        raise InvalidInput(
            f"`run_id` must be the id of a run (cluster.run runs a function), got {run_id!r:.200}", field="run_id"
        )
    return held(session().hub.info(check_text(run_id, "run_id", "the id of a run")))


def runs(*, archived: bool = False, deleted: bool = False) -> Runs:
    """List all runs, live and past.

    Args:
        archived: Include archived runs.
        deleted: List only the runs that were deleted and can still be restored.

    Returns:
        A list of runs, newest first. Its method ``frame()`` returns a DataFrame.

    Example:
        >>> dtf.runs().frame()[["name", "state", "last.loss"]]
    """
    infos = session().hub.runs(deleted=deleted)
    return Runs([info for info in infos if archived or deleted or not info.marks.archived])
