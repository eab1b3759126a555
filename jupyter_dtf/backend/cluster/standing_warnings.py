"""What should be acted on in a cluster until it is over: shown with the cluster, and in the runs that it touches."""

from __future__ import annotations

from .active_run import Run
from .cluster_runs import Runs


class StandingWarnings:
    """Each has a key, under which it is taken back."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._texts: dict[str, str] = {}
        self._told: dict[str, set[str]] = {}

    @property
    def texts(self) -> list[str]:
        """Those that stand."""
        return list(self._texts.values())

    def set(self, key: str, text: str, runs: list[str]) -> None:
        """``text`` holds from now on; without one, it is over. ``runs`` are those that it touches."""
        told = self._told.setdefault(key, set())
        if text:
            self._texts[key] = text
            for run in [self._runs.by_id[run_id] for run_id in runs if run_id in self._runs.by_id]:
                if run.id not in told:
                    self._note(run, key)
        else:
            self._texts.pop(key, None)
            for run in [self._runs.by_id[run_id] for run_id in told if run_id in self._runs.by_id]:
                run.note("info", "This run is saved again")
            told.clear()

    def tell(self, run: Run) -> None:
        """Those that stand hold for a run that has just begun, too."""
        for key in self._texts:
            self._note(run, key)

    def _note(self, run: Run, key: str) -> None:
        self._told[key].add(run.id)
        run.note("warning", "This run is not being saved", self._texts[key])
