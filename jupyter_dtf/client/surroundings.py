"""Where this process shows things to a person: what a notebook, or a terminal, hooks into the Python API.

The package's ``__init__`` says who finds them (``find``); this folder knows no notebook.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Surroundings(Protocol):
    """Runs are ``client.run.Run``, clusters ``client.cluster.Cluster``, traces ``client.run_trace.Trace``."""

    def show(self, run: Any) -> None:
        """Show a run."""

    def show_search(self, search: Any) -> None:
        """Show a search (``client.search.search.Search``)."""

    def follow_search(self, search: Any) -> None:
        """Show a search that is waited for, until it has ended."""

    def followed(self, run: Any) -> AbstractContextManager[Callable[[str], None]]:
        """A context in which a run that is waited for is shown; gives what tells a line beside it."""

    def sending_shown(self, run: Any) -> AbstractContextManager[object]:
        """A context in which a line says how much of a run's data has been sent."""

    def output_shown(self, run: Any) -> AbstractContextManager[object]:
        """A context in which the output of a run's tasks is shown; at its end, all of it."""

    def widget(self, run: Any) -> Any:
        """A run as an ipywidget."""

    def run_bundle(self, run: Any) -> dict[str, Any]:
        """A run as the last expression of a cell: a mime bundle."""

    def cluster_bundle(self, cluster: Any) -> dict[str, Any]:
        """A cluster as the last expression of a cell."""

    def trace_bundle(self, trace: Any) -> dict[str, Any]:
        """A trace as the last expression of a cell."""

    def choose(self, cluster: str, owned: bool) -> None:
        """This process's cluster is the one of this name now; ``owned``: it ends with the process."""

    def returns(self, cluster: str) -> bool:
        """Whether this process ends only to start again with the cluster of this name: a kernel that is restarted."""


def here() -> Surroundings:
    """Those of this process, now: a script may become a kernel."""
    return find()


def _not_hooked() -> Surroundings:
    raise RuntimeError("Nothing shows runs in this process: `jupyter_dtf` says what does when it is imported")


find: Callable[[], Surroundings] = _not_hooked
