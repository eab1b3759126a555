"""How a Dask task, or whoever asks all workers by ``Client.run``, finds the inlets of a run's tasks."""

from __future__ import annotations

from pathlib import Path

from distributed import get_worker

from ...errors import Unavailable
from ..machine.feed_outlet import inlets as inlets_in
from .host import Host


def inlets(run_id: str) -> dict[str, Path]:
    """The inlets of a run's tasks on this machine by the tasks' short names, in a Dask task or by ``Client.run``.

    Of its newest attempt, and without the tasks that have no inlet yet. All Dask workers of a machine find the same:
    ``client.run(inlets, run_id)`` tells of each worker which tasks it can feed. Raises Unavailable where the worker is
    no host of a cluster.
    """
    host = get_worker().plugins.get(Host.name)
    if not isinstance(host, Host):
        raise Unavailable("This Dask worker is no host of a jupyter_dtf cluster, so no task of a run is here")
    return inlets_in(host.shared_by(run_id))
