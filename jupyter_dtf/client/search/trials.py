"""The trials of a search, as a person sees them: read from the study, which is all that is kept of them."""

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
"""What a trial has in the study beside Optuna's own."""
OWN_COLUMNS = ("number", "state", SECONDS, RUN, ERROR)
HOW_KEPT = (
    "cluster.search(..., keep_models=n) keeps the models of the best n trials, each what the last `fit` of its program "
    "has trained, or what it has saved as ctx.checkpoint_dir / 'model.keras'"
)


@dataclass(frozen=True)
class Trial:
    """One trial: its parameters, and what came of it.

    ``state`` is waiting, running, complete, pruned, stopped or failed. ``values`` are those of the objectives, empty
    while there are none; of a pruned trial the last that it reported. In population based training it is an interval of
    ``member``, the ``generation``-th from 0, that began with the checkpoint of the trial ``parent``.
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
        """The value of the objective, or of the first of several; None while there is none."""
        return next(iter(self.values.values()), None)

    @property
    def run(self) -> Run | None:
        """Its run; None before it has one."""
        return Run(self.run_id) if self.run_id else None

    @property
    def model(self) -> Any:
        """Its trained Keras model, not compiled. Raises NotFound where ``keep_models`` has not kept it."""
        if not self.model_path or not Path(self.model_path).is_file():
            raise NotFound(f"Trial {self.number} must have a model here, and has none; {HOW_KEPT}")
        return read_model(Path(self.model_path))

    @classmethod
    def of(cls, trial: FrozenTrial, metrics: Sequence[str]) -> Trial:
        """What the study knows of a trial."""
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
    """Every trial of a study, by number."""
    return [Trial.of(trial, metrics) for trial in study.get_trials(deepcopy=False)]


def table(trials: Sequence[Trial], metrics: Sequence[str], params: Sequence[str]) -> pd.DataFrame:
    """A row for each trial: ``number`` and ``state``, objectives, parameters, ``seconds``, ``run`` and ``error``; of a
    population also ``member``, ``generation`` and ``parent``.
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
