"""``Search``: a search over a space of parameters, as a person holds it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import InvalidInput, NotFound, RunFailed
from ...schema.sizes import number as shown_number
from .. import surroundings
from . import listing
from .asked import AskedTrials
from .kept_models import ensemble_of
from .one_driver import Driving
from .study import INDEPENDENT
from .trial_runs import TrialRuns, begin_thread, new_id
from .trials import HOW_KEPT, Trial, all_trials, table

if TYPE_CHECKING:
    import pandas as pd
    from optuna.study import Study

ID = "jupyter_dtf"
"""What a study keeps the search's id as."""
_held: list[Search] = []
"""The searches of this process: one that was left to itself is found here."""


class Search:
    """Many trials of one function with other parameters. It is driven by this process, and ends with it.

    ``study`` is Optuna's own, for its tools.
    """

    def __init__(self, name: str, cluster: str, metrics: list[str], params: list[str], study: Study) -> None:
        self.name = name
        self.cluster = cluster
        self.study = study
        self.id = id_of(study)
        """The same for all who go on with its study; views know it by that."""
        self.began = time.time()
        self.keeps_models = 0
        """Of how many of the best trials it keeps the models."""
        self._metrics = metrics
        self._params = params
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._runs: TrialRuns
        self._asked: AskedTrials
        self._driving: Driving | None = None

    def take_study(self) -> None:
        """From now on nobody else on this machine drives the study, until the search has ended. Raises Conflict."""
        self._driving = Driving(self.study, self.id)

    def let_study_go(self) -> None:
        """Others may drive the study."""
        if self._driving is not None:
            self._driving.end()

    def begin(self, asked: AskedTrials, runs: TrialRuns, sampler: Any) -> None:
        """Start its trials, in a thread of this process."""
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
            with self._asked.changed:
                self._asked.changed.notify_all()

    # -- what came of it ----------------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        """``running``, ``finished``, ``stopped`` or ``failed``."""
        if not self._done.is_set():
            return "running"
        if self._error is not None:
            return "failed"
        return "stopped" if self._runs.message else "finished"

    @property
    def most(self) -> int | None:
        """How many trials it is to have; None: no such number."""
        return self._asked.most

    @property
    def metrics(self) -> list[str]:
        """The objectives, the first first."""
        return list(self._metrics)

    @property
    def params(self) -> list[str]:
        """The names of the parameters that are searched."""
        return list(self._params)

    @property
    def has_ended(self) -> bool:
        """Whether no trial of it runs any more, and none is to begin."""
        return self._done.is_set()

    @property
    def message(self) -> str:
        """Why it has ended before all of its trials had; or empty."""
        return str(self._error) if self._error is not None else self._runs.message

    @property
    def trials(self) -> pd.DataFrame:
        """A row for each trial: ``number``, ``state``, the objectives, the parameters, ``seconds``, ``run`` (the run's
        id) and ``error``. States are waiting, running, complete, pruned, stopped and failed.
        """
        return table(self._all(), self._metrics, self._params)

    def trial(self, number: int) -> Trial:
        """One trial: ``params``, ``value``, ``state``, ``run``, ``error``, ``traceback``. Raises NotFound."""
        for trial in self._all():
            if trial.number == number:
                return trial
        raise NotFound(f"A trial is known by its number. Received: {number!r}")

    @property
    def best(self) -> Trial:
        """The complete trial with the best value so far.

        Raises NotFound while there is none, and of several objectives, which have ``best_trials``.
        """
        if len(self._metrics) > 1:
            raise NotFound(f"Of {len(self._metrics)} objectives there is no one best trial: see search.best_trials")
        return self._best_of(self._all())

    def _best_of(self, trials: list[Trial]) -> Trial:
        if not (ranked := self._ranked(trials)):
            raise NotFound(f"No trial of {self.name} is complete")
        return ranked[0]

    def _ranked(self, trials: list[Trial]) -> list[Trial]:
        """The complete ones, the best first."""
        complete = [trial for trial in trials if trial.state == "complete"]
        sign = -1 if self.study.direction.name == "MAXIMIZE" else 1
        return sorted(complete, key=lambda trial: sign * (trial.value or 0.0))

    @property
    def best_trials(self) -> list[Trial]:
        """The trials to which no other is better in all objectives: the Pareto front. Of one objective, the best."""
        return [Trial.of(trial, self._metrics) for trial in self.study.best_trials]

    def ensemble(
        self, k: int | None = None, devices: Sequence[str] | None = None, combine: str | Callable[[Any], Any] = "mean"
    ) -> Any:
        """The models of the best ``k`` complete trials as one Keras model, as ``dtf.ensemble``; None: of all that are
        kept (``keep_models``). Raises InvalidInput, and NotFound where there are fewer or one of them has no model.
        """
        if len(self._metrics) > 1:
            raise NotFound(f"Of {len(self._metrics)} objectives there are no best trials for an ensemble")
        count = self.keeps_models if k is None else k
        if isinstance(count, bool) or not isinstance(count, int) or (k is not None and count < 1):
            raise InvalidInput(f"`k` must be a whole number, 1 or more, got {k!r:.100}", field="k")
        ranked = self._ranked(self._all())
        if len(ranked) < count and k is not None:
            raise NotFound(f"An ensemble of {k} needs so many complete trials. {self.name} has {len(ranked)}")
        if not count:
            raise NotFound(f"{self.name} keeps no models; {HOW_KEPT}")
        return ensemble_of(ranked[:count], devices, combine)

    def _all(self) -> list[Trial]:
        return all_trials(self.study, self._metrics)

    # -- what to do with it -------------------------------------------------------------------------------------

    def stop(self, number: int | None = None) -> None:
        """End the trials that run and start no more; or end the one with this number, which is not tried again.

        Returns at once. Does nothing to a trial that has ended. Raises NotFound for a number that no trial has.
        """
        if number is None:
            self._runs.stop()
        else:
            self._runs.stop_one(self.trial(number).number)

    def wait(self, timeout_s: float | None = None) -> Search:
        """Wait until it has ended, however it ended. Raises TimeoutError."""
        if not self._done.wait(timeout_s):
            raise TimeoutError(f"The search {self.name} has not ended after {timeout_s} s")
        return self

    def wait_for_change(self, timeout_s: float) -> bool:
        """Wait until a trial has begun or ended, or so many seconds. Returns whether the search has ended."""
        with self._asked.changed:
            if not self._done.is_set():
                self._asked.changed.wait(timeout_s)
        return self._done.is_set()

    def raise_for_state(self) -> None:
        """Raise what has ended it (ClusterLost, Unavailable), or RunFailed where all its trials failed."""
        if self._error is not None:
            raise self._error
        trials = self._all()
        failed = [trial for trial in trials if trial.state == "failed"]
        if failed and not any(trial.state in ("complete", "pruned") for trial in trials):
            last = failed[-1]
            why = self.message or f"{len(failed)} trials failed, the last with {last.error}"
            raise RunFailed(
                f"No trial of {self.name} was a success: {why}", run_id=last.run_id, traceback=last.traceback
            )

    # -- showing ------------------------------------------------------------------------------------------------

    def line(self) -> str:
        """How it is, in a line."""
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
        """Show it: in a notebook the live view, in a terminal how it is, and its best trials."""
        surroundings.here().show_search(self)

    def text(self, most: int = 10) -> str:
        """How it is, and as many trials at most: those that run and the best, a line each."""
        best = {trial.number for trial in self.best_now()}
        table = listing.table(self.ranked(), self._metrics, self._params, best, most)
        return "\n".join([self.line(), *([self.message] if self.message else []), *table])

    def ranked(self) -> list[Trial]:
        """Its trials: those with a value of the first objective first, the best of them before all others."""
        sign = -1 if self.study.directions[0].name == "MAXIMIZE" else 1
        order = {"complete": 0, "pruned": 1}

        def rank(trial: Trial) -> tuple[int, float, int]:
            return order.get(trial.state, 2), sign * (trial.value or 0.0), trial.number

        return sorted(self._all(), key=rank)

    def best_now(self) -> list[Trial]:
        """The best trials so far; none while no trial is complete."""
        if len(self._metrics) > 1:
            return self.best_trials
        return [trial for trial in self.ranked()[:1] if trial.state == "complete"]

    def __repr__(self) -> str:
        return f"<Search {self.line().replace('  ', ', ')}>"


def id_of(study: Study) -> str:
    """The id of the search that a study is; a new one is kept in the study."""
    known = study.user_attrs.get(ID)
    if not isinstance(known, str):
        known = new_id()
        study.set_user_attr(ID, known)
    return known


def searches_of(cluster: str) -> list[Search]:
    """The searches of this process on a cluster, newest first."""
    return sorted((one for one in _held if one.cluster == cluster), key=lambda one: -one.began)
