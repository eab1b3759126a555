"""The hooks through which the Python API displays runs, clusters and searches in a notebook or a terminal.

The package's ``__init__`` sets ``find``, which chooses the implementation, so this folder does not depend on notebooks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Surroundings(Protocol):
    """An implementation of the hooks.

    The arguments ``run``, ``cluster`` and ``trace`` are a ``client.run.Run``, a ``client.cluster.Cluster`` (or its
    name) and a ``client.run_trace.Trace``.
    """

    def show(self, run: Any) -> None:
        """Show a run."""

    def show_search(self, search: Any) -> None:
        """Show a search (``client.search.search.Search``)."""

    def follow_search(self, search: Any) -> None:
        """Show a search that the caller is waiting for, until it has ended."""

    def followed(self, run: Any) -> AbstractContextManager[Callable[[str], None]]:
        """Return a context manager that shows a run while the caller waits for it.

        It yields a function that prints a line.
        """

    def sending_shown(self, run: Any) -> AbstractContextManager[object]:
        """Return a context manager that shows how much of a run's data has been sent."""

    def output_shown(self, run: Any) -> AbstractContextManager[object]:
        """Return a context manager that shows the output of a run's tasks as it arrives.

        On exit, it shows the output that has arrived in the meantime.
        """

    def widget(self, run: Any) -> Any:
        """Return an ipywidget that shows a run."""

    def run_bundle(self, run: Any) -> dict[str, Any]:
        """Return the MIME bundle of a run that is the last expression of a cell."""

    def cluster_bundle(self, cluster: Any) -> dict[str, Any]:
        """Return the MIME bundle of a cluster that is the last expression of a cell."""

    def trace_bundle(self, trace: Any) -> dict[str, Any]:
        """Return the MIME bundle of a trace that is the last expression of a cell."""

    def choose(self, cluster: str, owned: bool) -> None:
        """Make ``cluster`` this process's cluster. ``owned``: whether the cluster ends with the process."""

    def returns(self, cluster: str) -> bool:
        """Return whether this process is a kernel that is being restarted and will use this cluster again."""


def here() -> Surroundings:
    """Return the implementation for this process. It is chosen again each time: a script may become a kernel later."""
    return find()


def _not_hooked() -> Surroundings:
    raise RuntimeError("Runs cannot be shown in this process until `jupyter_dtf` has been imported")


find: Callable[[], Surroundings] = _not_hooked
