"""``Search``: the public handle of a hyperparameter search."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import NotFound, RunFailed
from ...schema.arguments import check_integer, check_seconds
from ...schema.sizes import number as shown_number
from .. import display_hooks
from . import listing
from .kept_models import ensemble_of
from .optuna_trials import AskedTrials
from .study import INDEPENDENT
from .study_lock import StudyLock
from .trial_runs import TrialRuns, begin_thread, new_id
from .trials import HOW_KEPT, Trial, all_trials, table

if TYPE_CHECKING:
    import pandas as pd
    from optuna.study import Study

ID = "jupyter_dtf"
"""The name of the study attribute that holds the search's id."""
_held: list[Search] = []
"""The searches of this process, including those that the user has detached from."""


class Search:
    """A hyperparameter search, as ``cluster.search`` returns it. This process drives it, so it ends with this process.

    Attributes:
        name: The name of the search.
        cluster: The name of the cluster.
        study: The Optuna study, for use with Optuna's own tools.
        id: The id of the search, shared by all processes that continue its study.
    """

    def __init__(self, name: str, cluster: str, metrics: list[str], params: list[str], study: Study) -> None:
        self.name = name
        self.cluster = cluster
        self.study = study
        self.id = id_of(study)  # views identify the search by it
        self.began = time.time()
        self.keeps_models = 0  # the number of best trials whose models are kept
        self._metrics = metrics
        self._params = params
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._runs: TrialRuns
        self._asked: AskedTrials
        self._lock: StudyLock | None = None

    def take_study(self) -> None:
        """Prevent other searches on this machine from driving the study until this one has ended. Raises Conflict."""
        self._lock = StudyLock(self.study, self.id)

    def let_study_go(self) -> None:
        """Allow other searches to drive the study."""
        if self._lock is not None:
            self._lock.end()

    def begin(self, asked: AskedTrials, runs: TrialRuns, sampler: Any) -> None:
        """Start the trials, in a thread of this process."""
        self._asked, self._runs = asked, runs
        runs.ahead = int(sampler in INDEPENDENT)
        _held.append(self)
        begin_thread(self._drive, f"dtf {self.name}")

    def _drive(self) -> None:
        try:
            self._runs.drive()
        except BaseException as error:
            self._error = error
        finally:
            self.let_study_go()
            self._done.set()
            self._asked.tell_change()

    # -- results ------------------------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        """The state of the search: ``running``, ``finished``, ``stopped`` or ``failed``."""
        if not self._done.is_set():
            return "running"
        if self._error is not None:
            return "failed"
        return "stopped" if self._runs.message else "finished"

    @property
    def most(self) -> int | None:
        """The number of trials after which the search ends; None if there is no such limit."""
        return self._asked.most

    @property
    def metrics(self) -> list[str]:
        """The names of the objectives, in order."""
        return list(self._metrics)

    @property
    def params(self) -> list[str]:
        """The names of the parameters that are searched."""
        return list(self._params)

    @property
    def has_ended(self) -> bool:
        """Whether no trial is running and no further trial will start."""
        return self._done.is_set()

    @property
    def message(self) -> str:
        """The reason why the search ended before all trials had run; empty if it did not end early."""
        return str(self._error) if self._error is not None else self._runs.message

    @property
    def trials(self) -> pd.DataFrame:
        """A DataFrame with a row for each trial.

        Columns: ``number``, ``state`` (waiting, running, complete, pruned, stopped or failed), the objectives, the
        parameters, ``seconds``, ``run`` (the id of the run) and ``error``.
        """
        return table(self._all(), self._metrics, self._params)

    def trial(self, number: int) -> Trial:
        """Look up a trial.

        Args:
            number: The number of the trial, from 0.

        Returns:
            The trial, with ``params``, ``value``, ``state``, ``run``, ``error`` and ``traceback``.

        Raises:
            NotFound: If there is no trial with this number.
        """
        for trial in self._all():
            if trial.number == number:
                return trial
        raise NotFound(f"`number` must be the number of a trial, got {number!r}")

    @property
    def best(self) -> Trial:
        """The complete trial with the best value so far.

        Raises:
            NotFound: If no trial is complete yet, or there are several objectives (see ``best_trials``).
        """
        if len(self._metrics) > 1:
            raise NotFound(f"With {len(self._metrics)} objectives there is no best trial; use best_trials")
        return self._best_of(self._all())

    def _best_of(self, trials: list[Trial]) -> Trial:
        if not (ranked := self._ranked(trials)):
            raise NotFound(f"No trial of {self.name} is complete")
        return ranked[0]

    def _ranked(self, trials: list[Trial]) -> list[Trial]:
        """Return the complete trials, best first."""
        complete = [trial for trial in trials if trial.state == "complete"]
        sign = -1 if self.study.direction.name == "MAXIMIZE" else 1
        return sorted(complete, key=lambda trial: sign * (trial.value or 0.0))

    @property
    def best_trials(self) -> list[Trial]:
        """The Pareto front: the trials that no other trial beats in all objectives."""
        return [Trial.of(trial, self._metrics) for trial in self.study.best_trials]

    def ensemble(
        self, k: int | None = None, devices: Sequence[str] | None = None, combine: str | Callable[[Any], Any] = "mean"
    ) -> Any:
        """Combine the models of the best trials into one Keras model. See ``dtf.ensemble``.

        Args:
            k: The number of trials. None: all trials with kept models (``keep_models``).
            devices: See ``dtf.ensemble``.
            combine: See ``dtf.ensemble``.

        Returns:
            The ensemble.

        Raises:
            InvalidInput: If an argument is invalid.
            NotFound: If fewer than ``k`` trials are complete, or a model was not kept.
        """
        if len(self._metrics) > 1:
            raise NotFound(f"With {len(self._metrics)} objectives there are no best trials for an ensemble")
        count = self.keeps_models if k is None else check_integer(k, "k", 1)
        ranked = self._ranked(self._all())
        if len(ranked) < count and k is not None:
            raise NotFound(f"An ensemble of {k} needs {k} complete trials; {self.name} has {len(ranked)}")
        if not count:
            raise NotFound(f"{self.name} keeps no models; {HOW_KEPT}")
        return ensemble_of(ranked[:count], devices, combine)

    def _all(self) -> list[Trial]:
        return all_trials(self.study, self._metrics)

    # -- control ------------------------------------------------------------------------------------------------

    def stop(self, number: int | None = None) -> None:
        """Stop the search: end the running trials and start no more. Returns immediately.

        Does nothing if the search has ended.

        Args:
            number: Stop only the trial with this number; it will not be retried. Does nothing if it has ended.

        Raises:
            NotFound: If there is no trial with this number.
        """
        if number is not None:
            number = self.trial(number).number
        if self._done.is_set():
            return
        if number is None:
            self._runs.stop()
        else:
            self._runs.stop_one(number)

    def wait(self, timeout_s: float | None = None) -> Search:
        """Wait until the search has ended, whether or not it succeeded.

        Args:
            timeout_s: The longest time to wait, in seconds. None: no limit.

        Returns:
            This search.

        Raises:
            TimeoutError: If the search has not ended after ``timeout_s`` seconds.
        """
        if not self._done.wait(check_seconds(timeout_s, "timeout_s")):
            raise TimeoutError(f"The search {self.name} has not ended after {timeout_s} s")
        return self

    @property
    def changes(self) -> int:
        """How often a trial has started or ended so far."""
        with self._asked.changed:
            return self._asked.changes

    def wait_for_change(self, timeout_s: float, seen: int | None = None) -> bool:
        """Wait for a trial to start or end, at most ``timeout_s`` seconds. Return whether the search has ended.

        ``seen``: the value of ``changes`` that the caller knows of. If there have been more, do not wait. None: wait
        for the next one.
        """
        asked = self._asked
        with asked.changed:
            known = asked.changes if seen is None else seen
            asked.changed.wait_for(lambda: self._done.is_set() or asked.changes != known, timeout_s)
        return self._done.is_set()

    def raise_for_state(self) -> None:
        """Raise an error if the search has failed.

        Raises:
            ClusterLost: If the cluster was lost.
            Unavailable: If no trial could run.
            RunFailed: If no trial succeeded, with the traceback of the last one.
        """
        if self._error is not None:
            raise self._error
        trials = self._all()
        failed = [trial for trial in trials if trial.state == "failed"]
        if failed and not any(trial.state in ("complete", "pruned") for trial in trials):
            last = failed[-1]
            why = (
                self.message or f"{len(failed)} trial{'s' * (len(failed) != 1)} failed, the last one with: {last.error}"
            )
            raise RunFailed(f"No trial of {self.name} succeeded: {why}", run_id=last.run_id, traceback=last.traceback)

    # -- display ------------------------------------------------------------------------------------------------

    def line(self) -> str:
        """Return a one-line summary of the search."""
        trials = self._all()
        states = [trial.state for trial in trials]
        ended = sum(states.count(state) for state in ("complete", "pruned", "failed"))
        parts = [f"{self.name} {self.status}", f"{ended}{f'/{self.most}' if self.most else ''} trials"]
        parts += [f"{states.count(state)} {state}" for state in ("running", "pruned", "failed") if state in states]
        if len(self._metrics) > 1:
            parts.append(f"{len(self.study.best_trials)} on the Pareto front")
        elif "complete" in states:
            best = self._best_of(trials)
            parts.append(f"best {self._metrics[0]} {shown_number(best.value or 0.0)} (trial {best.number})")
        return "  ".join(parts)

    def show(self) -> None:
        """Show the search: a live view in a notebook, otherwise a summary and its best trials."""
        display_hooks.here().show_search(self)

    def text(self, most: int = 10) -> str:
        """Return the search as text.

        Args:
            most: The maximum number of trials to list.

        Returns:
            A summary line, followed by a line for each running trial and each of the best trials.
        """
        best = {trial.number for trial in self.best_now()}
        table = listing.table(self.ranked(), self._metrics, self._params, best, most)
        return "\n".join([self.line(), *([self.message] if self.message else []), *table])

    def ranked(self) -> list[Trial]:
        """Return all trials: first those with a value for the first objective, best first, then the others."""
        sign = -1 if self.study.directions[0].name == "MAXIMIZE" else 1
        order = {"complete": 0, "pruned": 1}

        def rank(trial: Trial) -> tuple[int, float, int]:
            return order.get(trial.state, 2), sign * (trial.value or 0.0), trial.number

        return sorted(self._all(), key=rank)

    def best_now(self) -> list[Trial]:
        """Return the best trials so far; empty until a trial is complete."""
        if len(self._metrics) > 1:
            return self.best_trials
        return [trial for trial in self.ranked()[:1] if trial.state == "complete"]

    def __repr__(self) -> str:
        return f"<Search {self.line().replace('  ', ', ')}>"


def id_of(study: Study) -> str:
    """Return the id of the search that a study belongs to. If the study has none, store a new one in it."""
    known = study.user_attrs.get(ID)
    if not isinstance(known, str):
        known = new_id()
        study.set_user_attr(ID, known)
    return known


def searches_of(cluster: str) -> list[Search]:
    """Return the searches of this process on a cluster, newest first."""
    return sorted((one for one in _held if one.cluster == cluster), key=lambda one: -one.began)
