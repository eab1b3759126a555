"""Marks runs whose cluster no longer exists as lost, so that no viewer waits for them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ...errors import NotFound
from ...schema.api import ClusterState
from ..records.hub import Hub
from .connections import Connection

logger = logging.getLogger(__name__)


def mark_lost(hub: Hub, cluster: str, created: float, why: str) -> None:
    """Mark the unfinished runs of a cluster that was started at ``created`` and has ended."""
    for run in hub.runs():
        if run.cluster == cluster and run.created >= created and not run.state.is_final:
            _mark(hub, run.id, why)


def mark_orphans(hub: Hub, known: Mapping[str, Connection]) -> None:
    """Mark unfinished runs in the store whose cluster died unnoticed. ``known`` are the existing clusters."""
    for run in hub.runs():
        connection = known.get(run.cluster)
        if connection is not None and run.created < connection.created:
            connection = None
        lost = connection is None or connection.state in (ClusterState.FAILED, ClusterState.LOST)
        if lost and not run.state.is_final:
            why = connection.message if connection is not None else ""
            _mark(hub, run.id, why or f"The cluster {run.cluster} was killed or has crashed")


def _mark(hub: Hub, run_id: str, why: str) -> None:
    try:
        hub.mark_lost(run_id, why)
    except NotFound:  # the run has been deleted
        pass
    except Exception:  # the store cannot be written: the next viewer will try again
        logger.exception("The end of the run %s could not be kept", run_id)
