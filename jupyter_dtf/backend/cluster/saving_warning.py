"""The warning that runs are not being saved, shown with the cluster and in the affected runs until they are saved."""

from __future__ import annotations

from collections.abc import Iterable

from .active_run import Run
from .cluster_runs import Runs


class SavingWarning:
    """The current warning, if there is one."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._text = ""
        self._told: set[str] = set()

    @property
    def texts(self) -> list[str]:
        """The current warning; empty while runs are being saved."""
        return [self._text] if self._text else []

    def set(self, text: str, runs: list[str]) -> None:
        """Set the warning to ``text``, or withdraw it if that is empty. ``runs``: the ids of affected runs."""
        self._text = text
        if text:
            for run in self._found(run_id for run_id in runs if run_id not in self._told):
                self.tell(run)
        else:
            for run in self._found(self._told):
                run.note("info", "Saving of this run has resumed")
            self._told.clear()

    def tell(self, run: Run) -> None:
        """Record the current warning, if there is one, in a run, such as one that has just begun."""
        if self._text:
            self._told.add(run.id)
            run.note("warning", "This run is not being saved", self._text)

    def _found(self, run_ids: Iterable[str]) -> list[Run]:
        return [self._runs.by_id[run_id] for run_id in run_ids if run_id in self._runs.by_id]
