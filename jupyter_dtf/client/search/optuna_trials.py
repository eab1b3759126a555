"""Requests the trials of an Optuna study one by one, passes on their reports, and records their outcomes."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...backend.task.trial import run_trial
from ...errors import DtfError
from ...schema.run import RunState
from ...schema.search_trial import as_value, objective_values
from ..run import Run
from .kept_models import keep_best, path_here
from .optuna_here import optuna, quiet
from .population import Population
from .trial_runs import FIRST, Ended, Next
from .trials import AGAIN, CHECKPOINTS, ERROR, MODEL, OF_POPULATION, PARENT, RUN, SECONDS, STOPPED, TRACEBACK

if TYPE_CHECKING:
    from optuna import Trial as Asked
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial


class AskedTrials:
    """Supplies trials of ``study`` until ``most`` of them have ended on their own; None: no limit.

    ``metrics`` are the objectives. ``keeps``: whether the study outlives this process. If so, trials that were running
    when the search was stopped are enqueued again when it is continued. A trial that was stopped individually counts as
    ended, because a user rejected it. The models of the best ``keep_models`` trials are kept. If there is a
    ``population``, it chooses the next trials.
    """

    def __init__(
        self,
        study: Study,
        train_fn: Callable[..., Any],
        space: Mapping[str, BaseDistribution],
        metrics: Sequence[str],
        most: int | None,
        *,
        keeps: bool,
        keep_models: int = 0,
        population: Population | None = None,
    ) -> None:
        self.study = study
        self.changed = threading.Condition()
        self.changes = 0
        """How often a trial has started or ended, or the search has; guarded by ``changed``."""
        self.most = most
        self._train_fn = train_fn
        self._space = dict(space)
        self._metrics = list(metrics)
        self._keeps = keeps
        self._prunes = not isinstance(study.pruner, optuna().pruners.NopPruner)
        self._keep_models = keep_models
        self._population = population
        self._asked: dict[int, Asked] = {}
        self._steps: dict[int, set[int]] = {}
        self._to_prune: set[int] = set()
        self._again_after_death()
        self._left = None if most is None else max(0, most - sum(map(has_ended, study.get_trials(deepcopy=False))))

    def _again_after_death(self) -> None:
        """Stop and re-enqueue the trials that were running when the process that drove the study died.

        If their cluster has survived, they may still be running or have ended since; a success is recorded in the
        study.
        """
        states = optuna().trial.TrialState
        for trial in self.study.get_trials(deepcopy=False, states=(states.RUNNING,)):
            if (run_id := trial.user_attrs.get(RUN)) and (ended := _success_or_stop(trial.number, Run(run_id))):
                self._tell_end(trial.number, ended)
                continue
            for mark in (STOPPED, AGAIN):
                self._mark(trial.number, mark, True)
            self.study.tell(trial.number, state=states.FAIL)
            self._enqueue_again(trial.params, trial.user_attrs)

    def _enqueue_again(self, params: dict[str, Any], attrs: Mapping[str, Any]) -> None:
        self.study.enqueue_trial(params, user_attrs={name: attrs[name] for name in OF_POPULATION if name in attrs})

    def tell_change(self) -> None:
        """Wake up those who wait for a change."""
        with self.changed:
            self.changes += 1
            self.changed.notify_all()

    # -- called by TrialRuns ------------------------------------------------------------------------------------

    def next(self) -> Next | None:
        """Return the next trial; None if the limit is reached, or if all members of the population are running."""
        if self._left == 0:
            return None
        if self._population is not None and not self._population.enqueue():
            return None
        if self._left is not None:
            self._left -= 1
        with quiet():
            trial = self.study.ask(fixed_distributions=self._space)
        self._asked[trial.number] = trial
        self._steps[trial.number] = set()
        job = (self._train_fn, dict(trial.params), self._metrics, self._keep_models > 0)
        return Next(trial.number, (run_trial, job), dict(trial.params), self._goes_on_from(trial))

    def _goes_on_from(self, trial: Asked) -> str:
        """Return the directory of the parent's checkpoints; empty if the trial has no parent."""
        parent = trial.user_attrs.get(PARENT)
        if parent is None:
            return ""
        return str(self.study.get_trials(deepcopy=False)[parent].user_attrs[CHECKPOINTS])

    def started(self, number: int, run: Run) -> None:
        """Record the run of a trial."""
        self._asked[number].set_user_attr(RUN, run.id)
        self.tell_change()

    def reported(self, number: int, points: Sequence[tuple[float, float]]) -> bool:
        """Record a trial's reports and query the pruner immediately, without waiting for other trials."""
        if number in self._to_prune:
            return False  # it is already being stopped: these are reports that were on their way
        trial, told = self._asked[number], self._steps[number]
        if len(self._metrics) > 1:
            return False  # Optuna prunes with a single objective only
        with quiet():
            for at, value in points:
                step = round(at)
                if step in told or step < 0 or math.isnan(value):
                    continue  # a restarted attempt reports the same steps again
                told.add(step)
                trial.report(value, step)
                if self._prunes and trial.should_prune():
                    self._to_prune.add(number)
                    return True
        return False

    def ended(self, trial: Ended) -> None:
        """Record in the study how a trial has ended."""
        asked = self._forget(trial.number)
        pruned = trial.number in self._to_prune
        self._to_prune.discard(trial.number)
        if pruned and trial.state is RunState.STOPPED:
            self._mark(trial.number, SECONDS, trial.seconds)
            self.study.tell(asked, state=optuna().trial.TrialState.PRUNED)
        else:
            if trial.state is RunState.STOPPED:
                self._stopped(asked, trial.is_cut_short)
            self._tell_end(trial.number, trial)
        self.tell_change()

    def cut_short(self, number: int) -> None:
        """Record that a trial was abandoned together with all others, rather than rejected individually."""
        if number in self._asked:
            asked = self._forget(number)
            self._stopped(asked, is_cut_short=True)
            self.study.tell(asked, state=optuna().trial.TrialState.FAIL)
            self.tell_change()

    def unwanted(self, number: int) -> None:
        """Withdraw a trial that is waiting in the study, as in a grid search, and has not started."""
        states = optuna().trial.TrialState
        for trial in self.study.get_trials(deepcopy=False, states=(states.WAITING,)):
            if trial.number == number and self._left != 0:
                self.study._storage.set_trial_user_attr(trial._trial_id, STOPPED, True)
                self.study._storage.set_trial_state_values(trial._trial_id, states.FAIL)
                self._left = None if self._left is None else self._left - 1
                self.tell_change()

    def more(self, count: int) -> None:
        """Allow ``count`` more trials. Without a limit, this changes nothing."""
        if self.most is not None and self._left is not None:
            self.most += count
            self._left += count

    # -- internal -----------------------------------------------------------------------------------------------

    def _forget(self, number: int) -> Asked:
        self._steps.pop(number)
        return self._asked.pop(number)

    def _mark(self, number: int, name: str, value: Any) -> None:
        storage = self.study._storage
        trial_id = storage.get_trial_id_from_study_id_trial_number(self.study._study_id, number)
        storage.set_trial_user_attr(trial_id, name, value)

    def _tell_end(self, number: int, trial: Ended) -> None:
        """Record the outcome of a trial that was not pruned, and remove models that are no longer needed."""
        values: list[float] = []
        error = trial.error
        if trial.state is RunState.SUCCEEDED and not error:
            values, error = self._values(trial)
        marks: dict[str, Any] = {SECONDS: trial.seconds}
        if values and self._population is not None:
            marks[CHECKPOINTS] = str(Path(trial.info.run_dir) / "checkpoints")
        if values and self._keep_models:
            marks[MODEL] = path_here(trial.info.run_dir)
        if not values:
            marks |= {ERROR: error, TRACEBACK: trial.traceback}
        for name, value in marks.items():
            self._mark(number, name, value)
        if values:
            self.study.tell(number, values)
        else:
            self.study.tell(number, state=optuna().trial.TrialState.FAIL)
        if self._keep_models:
            keep_best(self.study, self._keep_models)

    def _stopped(self, asked: Asked, is_cut_short: bool) -> None:
        asked.set_user_attr(STOPPED, True)
        if is_cut_short and self._keeps:
            asked.set_user_attr(AGAIN, True)
            self._enqueue_again(asked.params, asked.user_attrs)

    def _values(self, trial: Ended) -> tuple[list[float], str]:
        """Return the values of the objectives that the trial returned or last reported, or an error message."""
        returned = objective_values(trial.result, self._metrics)
        values = []
        for metric in self._metrics:
            value = returned.get(metric, trial.info.latest.get(metric))
            if value is None:
                what = "" if trial.result is None else f"; it returned {trial.result!r:.100}"
                return [], f"It neither reported nor returned {metric}{what}"
            if not math.isfinite(as_value(value)):
                return [], f"`{metric}` must be a finite number, got {value!r:.100}"
            values.append(as_value(value))
        return values, ""


def has_ended(trial: FrozenTrial) -> bool:
    """Return whether a trial has ended for good, rather than being interrupted with a search that may be continued."""
    return trial.state.is_finished() and not trial.user_attrs.get(AGAIN)


def _success_or_stop(number: int, run: Run) -> Ended | None:
    """Return the outcome of a trial that another process started; None if it has not succeeded.

    If the trial is still running, its run is stopped.
    """
    with contextlib.suppress(DtfError):  # the run has just ended, is no longer known, or its cluster does not respond
        run.stop(now=True)
    try:
        info = run.info
        return Ended(number, info, run._result_of(FIRST)) if info.state is RunState.SUCCEEDED else None
    except Exception:  # as above, or its return value cannot be read here
        return None
