"""Finds the inlets of a run's tasks, from a Dask task or on all workers with ``Client.run``."""

from __future__ import annotations

from pathlib import Path

from distributed import get_worker

from ...errors import Unavailable
from ..machine.feed_outlet import inlets as inlets_in
from .host import Host


def inlets(run_id: str) -> dict[str, Path]:
    """Return the inlets of a run's tasks on this machine, keyed by the tasks' short names.

    Call this in a Dask task, or with ``Client.run``: ``client.run(inlets, run_id)`` returns, for each worker, the tasks
    that it can feed. All Dask workers on one machine find the same inlets.

    Args:
        run_id: The id of the run.

    Returns:
        The inlets of the run's newest attempt. Tasks that have no inlet yet are omitted.

    Raises:
        Unavailable: If the worker is not a host of a jupyter_dtf cluster.
    """
    host = get_worker().plugins.get(Host.name)
    if not isinstance(host, Host):
        raise Unavailable("This Dask worker is not a host of a jupyter_dtf cluster, so it has no tasks of a run")
    return inlets_in(host.shared_by(run_id))
