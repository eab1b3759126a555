"""Marks a run as lost when its cluster no longer exists, so that no viewer waits for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from ...errors import DtfError, NotFound
from ...schema.api import ClusterState
from ...schema.run import RunInfo
from ..records.hub import Hub
from .connections import Connection

logger = logging.getLogger(__name__)


def mark_lost(hub: Hub, connection: Connection, why: str) -> None:
    """Mark the unfinished runs of a cluster that has ended as lost. If the store fails, the next viewer marks them."""
    for run in _runs(hub):
        if connection.is_cluster_of(run) and not run.state.is_final:
            _mark(hub, run.id, why)


def mark_orphans(hub: Hub, known: Mapping[str, Connection], may_exist: Callable[[str], bool]) -> None:
    """Mark unfinished runs in the store as lost if their cluster died unnoticed.

    If the store fails, the next viewer marks them.

    Args:
        hub: The runs.
        known: The existing clusters.
        may_exist: Returns whether a cluster that is not in ``known`` may exist, because its file cannot be read.
    """
    for run in _runs(hub):
        connection = known.get(run.cluster)
        if run.state.is_final or (connection is None and may_exist(run.cluster)):
            continue
        if connection is not None and not connection.is_cluster_of(run):
            connection = None
        if connection is None or connection.state in (ClusterState.FAILED, ClusterState.LOST):
            why = connection.message if connection is not None else ""
            _mark(hub, run.id, why or f"The cluster {run.cluster} was killed or has crashed")


def _runs(hub: Hub) -> list[RunInfo]:
    try:
        return hub.runs()
    except Exception as error:
        unexpected = not isinstance(error, DtfError)
        logger.warning("It could not be determined which runs are lost: %s", error, exc_info=unexpected)
        return []


def _mark(hub: Hub, run_id: str, why: str) -> None:
    try:
        hub.mark_lost(run_id, why)
    except NotFound:  # the run has been deleted
        pass
    except Exception:  # the store cannot be written: the next viewer will try again
        logger.exception("The end of the run %s could not be saved", run_id)
