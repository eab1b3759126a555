"""Warnings that remain until their cause is gone, shown with the cluster and in the runs that they affect."""

from __future__ import annotations

from .active_run import Run
from .cluster_runs import Runs


class StandingWarnings:
    """The current warnings, keyed so that each can be withdrawn."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._texts: dict[str, str] = {}
        self._told: dict[str, set[str]] = {}

    @property
    def texts(self) -> list[str]:
        """The current warnings."""
        return list(self._texts.values())

    def set(self, key: str, text: str, runs: list[str]) -> None:
        """Set the warning ``key`` to ``text``, or withdraw it if that is empty. ``runs``: the ids of affected runs."""
        told = self._told.setdefault(key, set())
        if text:
            self._texts[key] = text
            for run in [self._runs.by_id[run_id] for run_id in runs if run_id in self._runs.by_id]:
                if run.id not in told:
                    self._note(run, key)
        else:
            self._texts.pop(key, None)
            for run in [self._runs.by_id[run_id] for run_id in told if run_id in self._runs.by_id]:
                run.note("info", "Saving of this run has resumed")
            told.clear()

    def tell(self, run: Run) -> None:
        """Record the current warnings in a run that has just begun."""
        for key in self._texts:
            self._note(run, key)

    def _note(self, run: Run, key: str) -> None:
        self._told[key].add(run.id)
        run.note("warning", "This run is not being saved", self._texts[key])
