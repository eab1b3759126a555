"""The trials of a search as users see them. They are read from the study, the only place where they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...backend.task.trial_model import read_model
from ...errors import NotFound
from ..run import Run
from .optuna_here import optuna

if TYPE_CHECKING:
    import pandas as pd
    from optuna.study import Study
    from optuna.trial import FrozenTrial

RUN, ERROR, SECONDS, STOPPED, TRACEBACK, AGAIN = "run", "error", "seconds", "stopped", "traceback", "again"
MODEL, CHECKPOINTS = "model", "checkpoints"
MEMBER, GENERATION, PARENT = OF_POPULATION = ("member", "generation", "parent")
"""The names of further user attributes in the study, which only trials of population-based training have."""
OWN_COLUMNS = ("number", "state", SECONDS, RUN, ERROR)
HOW_KEPT = (
    "cluster.search(..., keep_models=n) keeps, for each of the n best trials, the model that the last `fit` trained "
    "or that the program saved as ctx.checkpoint_dir / 'model.keras'"
)


@dataclass(frozen=True)
class Trial:
    """One trial of a search.

    Attributes:
        number: The number of the trial, from 0.
        state: ``waiting``, ``running``, ``complete``, ``pruned``, ``stopped`` or ``failed``.
        params: The parameters.
        values: The values of the objectives, keyed by name; empty if there are none yet. For a pruned trial, the last
            value that it reported.
        seconds: How long the trial took, in seconds. None if it has not ended.
        run_id: The id of the trial's run; empty before it has one.
        error: Why the trial failed, in one line.
        traceback: The traceback of a failed trial.
        model_path: The path of the trained model, if it is kept.
        member: In population-based training, the member that this trial is an interval of.
        generation: In population-based training, the number of the interval, from 0.
        parent: In population-based training, the number of the trial whose checkpoint this trial started from.
    """

    number: int
    state: str
    params: dict[str, Any]
    values: dict[str, float]
    seconds: float | None
    run_id: str
    error: str
    traceback: str
    model_path: str = ""
    member: int | None = None
    generation: int | None = None
    parent: int | None = None

    @property
    def value(self) -> float | None:
        """The value of the (first) objective; None if there is none yet."""
        return next(iter(self.values.values()), None)

    @property
    def run(self) -> Run | None:
        """The run of the trial; None before it has one."""
        return Run(self.run_id) if self.run_id else None

    @property
    def model(self) -> Any:
        """The trained Keras model, not compiled.

        Raises:
            NotFound: If the model was not kept (``keep_models``).
        """
        if not self.model_path or not Path(self.model_path).is_file():
            raise NotFound(f"There is no model of trial {self.number} here; {HOW_KEPT}")
        return read_model(Path(self.model_path))

    @classmethod
    def of(cls, trial: FrozenTrial, metrics: Sequence[str]) -> Trial:
        """Create a trial from the one that is stored in the study."""
        states = optuna().trial.TrialState
        more = trial.user_attrs
        state = {states.FAIL: "stopped" if more.get(STOPPED) else "failed"}.get(trial.state, trial.state.name.lower())
        params = trial.params or trial.system_attrs.get("fixed_params", {})
        values = dict(zip(metrics, trial.values, strict=True)) if trial.values else {}
        return cls(
            trial.number,
            state,
            dict(params),
            values,
            more.get(SECONDS),
            more.get(RUN, ""),
            more.get(ERROR, ""),
            more.get(TRACEBACK, ""),
            more.get(MODEL, ""),
            *(more.get(name) for name in OF_POPULATION),
        )


def all_trials(study: Study, metrics: Sequence[str]) -> list[Trial]:
    """Return all trials of a study, ordered by number."""
    return [Trial.of(trial, metrics) for trial in study.get_trials(deepcopy=False)]


def table(trials: Sequence[Trial], metrics: Sequence[str], params: Sequence[str]) -> pd.DataFrame:
    """Return a DataFrame with a row for each trial.

    Columns: ``number``, ``state``, the objectives, the parameters, ``seconds``, ``run`` and ``error``. With population
    based training, also ``member``, ``generation`` and ``parent``.
    """
    import pandas as pd

    more = OF_POPULATION if any(trial.member is not None for trial in trials) else ()
    rows = [
        (
            trial.number,
            trial.state,
            *(trial.values.get(metric) for metric in metrics),
            *(trial.params.get(name) for name in params),
            trial.seconds,
            trial.run_id,
            trial.error,
            *(getattr(trial, name) for name in more),
        )
        for trial in trials
    ]
    found: pd.DataFrame = pd.DataFrame(rows, columns=[*OWN_COLUMNS[:2], *metrics, *params, *OWN_COLUMNS[2:], *more])
    return found
