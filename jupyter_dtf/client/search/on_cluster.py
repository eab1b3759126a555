"""``cluster.search`` and ``cluster.searches``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import InvalidInput
from ...schema.arguments import check_integer, is_number, plain
from ...schema.context import Context
from ...schema.restart import Restart
from ...schema.run_options import RunOptions
from ...schema.search_trial import TrialInfo
from ..argument_errors import names_arguments
from .kept_models import check_keep_models
from .optuna_trials import AskedTrials
from .population import Population, as_population
from .search import Search, searches_of
from .space import as_space, combinations
from .study import GRID, QMC, as_objectives, as_pruner, as_sampler, check_seed, enqueue_new, open_study, seed_of_more
from .trial_runs import Places, TrialRuns
from .trials import OF_POPULATION, OWN_COLUMNS
from .watching import watch


class Searching:
    """The part of ``Cluster`` that runs hyperparameter searches."""

    name: Any

    @names_arguments
    def search(
        self,
        train_fn: Callable[[dict[str, Any], Context], Any],
        space: Mapping[str, Any],
        *,
        trials: int | None = None,
        objective: str | Sequence[str] = "val_loss",
        direction: str | Sequence[str] = "minimize",
        sampler: Any = "tpe",
        pruner: Any = None,
        timeout: float | None = None,
        devices_per_trial: float | None = None,
        tasks_per_trial: int = 1,
        seed: int | None = None,
        keep_models: int = 0,
        storage: Any = None,
        study_name: str | None = None,
        name: str = "",
        environment: Mapping[str, str] | None = None,
        restart: Restart | bool = True,
        modules: Sequence[Any] = (),
        wait: bool = True,
    ) -> Search:
        """Search for the hyperparameters with which ``train_fn(params, ctx)`` performs best.

        Each trial is a run. The cluster runs as many trials at a time as it has free slots. A trial that raises an
        error fails without affecting the others, but ten consecutive failures with the same error stop the search.
        Requires Optuna (``pip install 'jupyter_dtf[search]'``).

        Args:
            train_fn: Called with the parameters, a dict, and the task's ``dtf.Context``. It returns the objective: a
                number, a list of numbers, or a dict. If it does not return one, the values that were last reported
                (with ``ctx.report``, ``dtf.report``, or by the epochs of a model's ``fit``) are used.
            space: For each parameter a list of choices, ``(low, high)`` or ``(low, high, "log")`` (bounds included;
                integers if both bounds are integers), a ``range``, or one of ``optuna.distributions``.
            trials: End after this many trials, including those that the study already contains.
            objective: The metric to optimize, or a list of metrics.
            direction: ``"minimize"`` or ``"maximize"``, or a list with one of these for each objective.
            sampler: ``"tpe"``, ``"random"``, ``"grid"``, ``"qmc"``, ``"cmaes"``, ``"gp"`` or an Optuna sampler; or
                ``"pbt"`` or a ``dtf.PopulationBased``, with which each trial is an interval of training that continues
                from a checkpoint (``ctx.restore``).
            pruner: ``"median"``, ``"asha"``, ``"hyperband"``, ``"patient"``, ``"wilcoxon"`` or an Optuna pruner, which
                ends unpromising trials early. It is queried after each report of the first task. None: no pruning.
            timeout: End after this many seconds.
            devices_per_trial: How many of the cluster's task slots, with their threads and GPUs, each trial uses. With
                a fraction such as 0.5, trials share a slot. By default one slot for each task.
            tasks_per_trial: The number of tasks of each trial.
            seed: The seed of the sampler, whose choices also depend on the order in which trials end.
            keep_models: Keep the trained models of the best ``keep_models`` trials, for ``search.ensemble``.
            storage: The URL of a database, or an Optuna storage, in which to keep the study so that it can be
                continued. Only one process at a time may drive a study.
            study_name: The name of the study in the storage.
            name: The name of the search.
            environment: Environment variables for the tasks.
            restart: What happens when a task dies or freezes. By default the trial starts again.
            modules: Paths of your own modules and packages, or imported modules, to send along.
            wait: Wait until the search has ended, showing its progress. If False, return immediately.

        Returns:
            The search.

        Raises:
            InvalidInput: If an argument is invalid.
            Unavailable: If Optuna is missing, or the cluster is too small for even one trial.
            ClusterLost: If the cluster was lost.
            RunFailed: If no trial succeeded.

        Example:
            >>> space = {"rate": (1e-4, 1e-1, "log"), "units": [32, 64, 128]}
            >>> search = cluster.search(train, space, trials=20, objective="val_loss")
            >>> search.best.params
        """
        if not callable(train_fn):
            raise InvalidInput(
                f"`train_fn` must be a function train_fn(params, ctx), got {train_fn!r:.200}", field="train_fn"
            )
        distributions = as_space(space)
        metrics, directions = as_objectives(objective, direction)
        if both := set(distributions) & {*metrics, *OWN_COLUMNS, *OF_POPULATION}:
            raise InvalidInput(
                f"The names in `space` must differ from the columns of search.trials, got {', '.join(sorted(both))}",
                field="space",
            )
        if pruner is not None and len(metrics) > 1:
            raise InvalidInput("`pruner` must be None with several objectives, got a pruner", field="pruner")
        trials, timeout, keep_models = plain(trials), plain(timeout), plain(keep_models)
        _check_limits(trials, timeout, sampler)
        check_keep_models(keep_models, len(metrics))
        based = as_population(sampler, pruner=pruner, objectives=len(metrics), trials=trials)
        seed = check_seed(seed)
        places = Places.of(devices_per_trial, tasks_per_trial)
        options = RunOptions.among({"environment": environment, "restart": restart})
        grid = combinations(distributions) if sampler == GRID else None
        drawn = "random" if based else sampler
        study = open_study(study_name, storage, as_sampler(drawn, seed), as_pruner(pruner), directions)
        self.wait_ready()  # type: ignore[attr-defined]
        called = name or study_name or self._run_name("search")  # type: ignore[attr-defined]
        search = Search(called, self.name, metrics, list(distributions), study)
        search.keeps_models = keep_models
        with contextlib.ExitStack() as held:
            if storage is not None:
                search.take_study()
                held.callback(search.let_study_go)
            more = seed_of_more(seed, study)
            if more != seed and isinstance(drawn, str) and drawn != QMC:
                study.sampler = as_sampler(drawn, more)
            if grid is not None:
                enqueue_new(study, grid)
                trials = len(grid) if trials is None else min(trials, len(grid))
            population = Population(based, study, distributions, more) if based else None
            asked = AskedTrials(
                study,
                train_fn,
                distributions,
                metrics,
                trials,
                keeps=storage is not None,
                keep_models=keep_models,
                population=population,
            )
            one = metrics[0] if len(metrics) == 1 else ""
            stop_at = None if timeout is None else time.monotonic() + timeout
            runs = TrialRuns(self, asked, called, options, places, "trial", one, modules, stop_at=stop_at)
            runs.search = TrialInfo(
                search=search.id,
                name=called,
                number=0,
                objectives=dict(zip(metrics, directions, strict=True)),
                parameters=list(distributions),
                logarithmic=[key for key, of in distributions.items() if getattr(of, "log", False)],
                most=trials or 0,
                may_grow=trials is not None and grid is None,
            )
            search.begin(asked, runs, sampler)
            held.pop_all()
        if wait:
            watch(search)
            search.raise_for_state()
        return search

    @property
    def searches(self) -> list[Search]:
        """The searches that this process has started on this cluster, newest first."""
        return searches_of(self.name)


def _check_limits(trials: Any, timeout: Any, sampler: Any) -> None:
    if trials is not None:
        check_integer(trials, "trials", 1)
    if timeout is not None and (not is_number(timeout) or not 0 < timeout < float("inf")):
        raise InvalidInput(f"`timeout` must be a number of seconds > 0, got {timeout!r:.100}", field="timeout")
    if trials is None and timeout is None and sampler != GRID:
        raise InvalidInput("`trials` or `timeout` must be given, got neither", field="trials")
