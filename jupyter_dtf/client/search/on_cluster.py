"""What a cluster does with searches."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import InvalidInput
from ...schema.restart import Restart
from ...schema.run_options import RunOptions
from ...schema.search_trial import TrialInfo
from ..named import names_arguments
from .asked import AskedTrials
from .kept_models import check_keep_models
from .population import Population, as_population
from .search import Search, searches_of
from .space import as_space, combinations
from .study import GRID, QMC, as_objectives, as_pruner, as_sampler, enqueue_new, open_study, seed_of_more
from .trial_runs import Places, TrialRuns
from .trials import OF_POPULATION, OWN_COLUMNS
from .watching import watch


class Searching:
    """The part of ``Cluster`` that searches."""

    name: Any

    @names_arguments
    def search(
        self,
        train_fn: Callable[[dict[str, Any], Any], Any],
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
        """Search for the parameters with which ``train_fn(params, ctx)`` does best. Needs Optuna, the extra ``search``.

        ``space`` maps each parameter to a list of choices, ``(low, high)`` or ``(low, high, "log")``, both included and
        whole if both are, a ``range``, or one of ``optuna.distributions``. Each trial is a run of ``tasks_per_trial``
        tasks, which take ``devices_per_trial`` of the cluster's places (one for each task), threads and GPUs included:
        as many run at a time as there is room for.

        ``objective``: the metric to ``minimize`` or ``maximize``, or several, with a ``direction`` for all or each. Its
        value is what ``train_fn`` returns (a number, a number for each of several, or a dict), else what was reported
        last, by ``ctx.report``, ``dtf.report`` or the epochs of a model's ``fit``. ``pruner`` is asked after each
        report of the first task, and a trial that does not promise enough is ended then.

        ``sampler``: ``"tpe"``, ``"random"``, ``"grid"``, ``"qmc"``, ``"cmaes"`` or ``"gp"``; ``pruner``: ``"median"``,
        ``"asha"``, ``"hyperband"``, ``"patient"`` or ``"wilcoxon"``; or Optuna's own objects. ``seed`` is the
        sampler's; what it says depends on the order in which trials end as well. With ``"pbt"`` or a
        ``dtf.PopulationBased`` each trial is an interval of a member that goes on from a checkpoint (``ctx.restore``).
        Of the best ``keep_models`` trials the trained models are kept, for ``search.ensemble``.

        It ends with ``trials`` trials, those of the study before included, after ``timeout`` seconds, or at the end of
        a grid. With ``storage`` (a database's URL, or one of Optuna's) and ``study_name`` it goes on where it was. One
        process at a time drives a study. A trial that raises is a failed one and the others go on; ten in a row with
        the same error stop the search. One whose worker is lost is tried again (``restart``).

        Waits until the end unless ``wait=False``. Raises InvalidInput, Unavailable (no Optuna, no room for a trial),
        ClusterLost, and RunFailed where no trial was a success.
        """
        if not callable(train_fn):
            raise InvalidInput(f"train_fn is a function train_fn(params, ctx). Received: {train_fn!r:.200}")
        distributions = as_space(space)
        metrics, directions = as_objectives(objective, direction)
        if both := set(distributions) & {*metrics, *OWN_COLUMNS, *OF_POPULATION}:
            raise InvalidInput(
                f"`space` must have other names than the columns of search.trials, got {', '.join(sorted(both))}"
            )
        if pruner is not None and len(metrics) > 1:
            raise InvalidInput("A pruner needs one objective. Received: several", field="pruner")
        _check_limits(trials, timeout, sampler)
        check_keep_models(keep_models, len(metrics))
        based = as_population(sampler, pruner=pruner, objectives=len(metrics), trials=trials)
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
        """The searches that this process has begun here, newest first."""
        return searches_of(self.name)


def _check_limits(trials: Any, timeout: Any, sampler: Any) -> None:
    if trials is not None and (isinstance(trials, bool) or not isinstance(trials, int) or trials < 1):
        raise InvalidInput(f"`trials` must be a whole number, 1 or more, got {trials!r:.100}", field="trials")
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < float("inf")
    ):
        raise InvalidInput(f"`timeout` must be a number of seconds above 0, got {timeout!r:.100}", field="timeout")
    if trials is None and timeout is None and sampler != GRID:
        raise InvalidInput("A search ends after `trials` or a `timeout`. Received: neither", field="trials")
