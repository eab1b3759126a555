"""The Optuna study of a search: its sampler and pruner, which can be given by name, and its storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InvalidInput
from ...schema.arguments import is_integer
from .optuna_here import optuna, quiet

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.study import Study

GRID = "grid"
QMC = "qmc"
"""The sampler that draws from a quasi-random sequence. The study stores the position in the sequence."""
DIRECTIONS = ("minimize", "maximize")
SAMPLERS: dict[str, Callable[[Any, int | None], Any]] = {
    "tpe": lambda samplers, seed: samplers.TPESampler(seed=seed, constant_liar=True),
    "random": lambda samplers, seed: samplers.RandomSampler(seed=seed),
    # The combinations are enqueued instead: Optuna's GridSampler ends a study in a way that only `optimize` supports.
    GRID: lambda samplers, seed: samplers.RandomSampler(seed=seed),
    "cmaes": lambda samplers, seed: samplers.CmaEsSampler(seed=seed),
    "gp": lambda samplers, seed: samplers.GPSampler(seed=seed),
    QMC: lambda samplers, seed: samplers.QMCSampler(seed=seed, warn_asynchronous_seeding=False),
}
PRUNERS: dict[str, Callable[[Any], Any]] = {
    "median": lambda pruners: pruners.MedianPruner(),
    "asha": lambda pruners: pruners.SuccessiveHalvingPruner(),
    "hyperband": lambda pruners: pruners.HyperbandPruner(),
    "patient": lambda pruners: pruners.PatientPruner(None, patience=3),
    "wilcoxon": lambda pruners: pruners.WilcoxonPruner(),
}
_STORAGE = "`storage` must be the URL of a database, such as 'sqlite:///study.db', or an Optuna storage"
INDEPENDENT = ("random", GRID, QMC)
"""Samplers that do not learn from trials, so they can be asked for the next parameters before trials have ended."""


def as_sampler(given: Any, seed: int | None) -> BaseSampler:
    """Return the sampler with this name, or the given Optuna sampler.

    Raises InvalidInput, also if a package that the sampler needs is missing.
    """
    samplers = optuna().samplers
    if isinstance(given, samplers.BaseSampler):
        if isinstance(given, samplers.GridSampler):
            raise InvalidInput(
                "`sampler` must be 'grid' for a grid search over `space`, got a GridSampler", field="sampler"
            )
        return given  # type: ignore[no-any-return]
    if given not in SAMPLERS:
        raise InvalidInput(
            f"`sampler` must be one of {', '.join(SAMPLERS)}, or an Optuna sampler, got {given!r:.100}",
            field="sampler",
        )
    try:
        with quiet():
            return SAMPLERS[given](samplers, seed)  # type: ignore[no-any-return]
    except ImportError as error:
        raise InvalidInput(f"`sampler={given!r}` needs another package: {error}", field="sampler") from None


def seed_of_more(seed: int | None, study: Study) -> int | None:
    """Return the seed of a sampler that continues a study.

    With ``seed`` itself, the sampler would suggest the same parameters again.
    """
    known = len(study.get_trials(deepcopy=False))
    if seed is None or not known:
        return seed
    return int(np.random.SeedSequence([seed, known]).generate_state(1)[0])


def as_pruner(given: Any) -> BasePruner:
    """Return the pruner with this name, the given Optuna pruner, or, for None, a pruner that never prunes.

    Raises InvalidInput.
    """
    pruners = optuna().pruners
    if given is None:
        return pruners.NopPruner()  # type: ignore[no-any-return]
    if isinstance(given, pruners.BasePruner):
        return given  # type: ignore[no-any-return]
    if given not in PRUNERS:
        raise InvalidInput(
            f"`pruner` must be None, one of {', '.join(PRUNERS)}, or an Optuna pruner, got {given!r:.100}",
            field="pruner",
        )
    with quiet():
        return PRUNERS[given](pruners)  # type: ignore[no-any-return]


def as_objectives(objective: Any, direction: Any) -> tuple[list[str], list[str]]:
    """Return the names of the metrics, and a list with the direction of each. Raises InvalidInput."""
    metrics = [objective] if isinstance(objective, str) else _listed(objective)
    directions = [direction] * len(metrics) if isinstance(direction, str) else _listed(direction)
    if not metrics or not all(isinstance(metric, str) and metric for metric in metrics):
        raise InvalidInput(
            f"`objective` must be the name of a metric, or a list of names, got {objective!r:.200}", field="objective"
        )
    if len(set(metrics)) != len(metrics):
        raise InvalidInput(f"`objective` must name each metric once, got {objective!r:.200}", field="objective")
    if len(directions) != len(metrics) or any(one not in DIRECTIONS for one in directions):
        raise InvalidInput(
            "`direction` must be 'minimize' or 'maximize', or a list with one of these for each of the "
            f"{len(metrics)} objectives, got {direction!r:.200}",
            field="direction",
        )
    return metrics, directions


def _listed(value: Any) -> list[Any]:
    """Return the items of a list or tuple; an empty list for anything else."""
    return list(value) if isinstance(value, (list, tuple)) else []


def check_seed(seed: Any) -> int | None:
    """Return a seed that every sampler accepts. Raises InvalidInput."""
    if seed is None:
        return None
    if not is_integer(seed) or not 0 <= seed < 2**32:
        raise InvalidInput(f"`seed` must be an integer from 0 to 2**32 - 1, or None, got {seed!r:.100}", field="seed")
    return int(seed)


def open_study(
    name: str | None, storage: Any, sampler: BaseSampler, pruner: BasePruner, directions: Sequence[str]
) -> Study:
    """Create a study, or load the one with this name from the storage. Raises InvalidInput if its directions differ."""
    package = optuna()
    if name is not None and not isinstance(name, str):
        raise InvalidInput(f"`study_name` must be a string, got {name!r:.200}", field="study_name")
    if storage is not None and not isinstance(storage, (str, package.storages.BaseStorage)):
        raise InvalidInput(f"{_STORAGE}, got {storage!r:.200}", field="storage")
    if storage is not None and not name:
        raise InvalidInput("`study_name` must be given with a storage, got none", field="study_name")
    said = package.logging.get_verbosity()
    package.logging.set_verbosity(package.logging.WARNING)  # otherwise, Optuna would log that it has created the study
    try:
        study: Study = package.create_study(
            storage=storage,
            sampler=sampler,
            pruner=pruner,
            study_name=name,
            directions=list(directions),
            load_if_exists=True,
        )
    except ImportError as error:
        raise InvalidInput(f"`storage` needs another package: {error}", field="storage") from None
    except Exception as error:
        if not isinstance(storage, str):
            raise
        why = f"{error}".partition("\n")[0]
        raise InvalidInput(f"{_STORAGE}, and must be usable, got {storage!r:.200}: {why}", field="storage") from error
    finally:
        package.logging.set_verbosity(said)
    has = [direction.name.lower() for direction in study.directions]
    if has != list(directions):
        raise InvalidInput(
            f"`direction` must be {has}, as in the study {name!r}, got {list(directions)}", field="direction"
        )
    return study


def enqueue_new(study: Study, combinations: Iterable[Mapping[str, Any]]) -> None:
    """Enqueue the combinations of parameters that no trial of the study has."""
    # Optuna's `skip_if_exists` reads all trials for each combination.
    known = {_key(trial.system_attrs.get("fixed_params", trial.params)) for trial in study.get_trials(deepcopy=False)}
    for params in combinations:
        if (key := _key(params)) not in known:
            known.add(key)
            study.enqueue_trial(dict(params))


def _key(params: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return a key that is equal for equal parameters, even if they come from a database, which loses NumPy's types."""
    return tuple(
        (name, repr(float(value) if isinstance(value, float) else value)) for name, value in sorted(params.items())
    )
