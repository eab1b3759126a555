"""Keeps the models of a search's best trials, and combines them into an ensemble."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...backend.task.trial_model import find_model, own_file, read_model
from ...errors import InvalidInput, NotFound
from ...schema.arguments import check_integer
from .optuna_here import optuna
from .trials import HOW_KEPT, MODEL, Trial

if TYPE_CHECKING:
    from optuna.study import Study


def check_keep_models(keep_models: Any, objectives: int) -> None:
    """Raise InvalidInput for an invalid count, or if models are to be kept although there are several objectives."""
    check_integer(keep_models, "keep_models", 0)
    if keep_models and objectives > 1:
        raise InvalidInput(
            f"`keep_models` must be 0 with several objectives, got {keep_models} with {objectives} objectives",
            field="keep_models",
        )


def path_here(run_dir: str) -> str:
    """Return the path of the model of a trial that has just ended; empty if no model is visible from here."""
    found = find_model(Path(run_dir))
    return "" if found is None else str(found)


def keep_best(study: Study, most: int) -> None:
    """Remove the models of all but the best ``most`` complete trials.

    Only models that were saved automatically are removed. A model that a program has saved belongs to the program, and
    other trials may continue from it.
    """
    states = optuna().trial.TrialState
    sign = -1 if study.direction.name == "MAXIMIZE" else 1
    complete = study.get_trials(deepcopy=False, states=(states.COMPLETE,))
    for trial in sorted(complete, key=lambda one: (sign * (one.value or 0.0), one.number))[most:]:
        if path := trial.user_attrs.get(MODEL):
            own_file(Path(path)).unlink(missing_ok=True)


def ensemble_of(trials: Sequence[Trial], devices: Sequence[str] | None, combine: str | Callable[[Any], Any]) -> Any:
    """Combine the models of these trials into an ensemble, as ``dtf.ensemble`` does.

    Raises NotFound if a model was not kept.
    """
    missing = [str(trial.number) for trial in trials if not trial.model_path or not Path(trial.model_path).is_file()]
    if missing:
        raise NotFound(f"Trials without a model among the {len(trials)} best: {', '.join(missing)}; {HOW_KEPT}")
    from ...backend.task.ensemble import ensemble

    return ensemble([partial(read_model, Path(trial.model_path)) for trial in trials], devices, combine)
