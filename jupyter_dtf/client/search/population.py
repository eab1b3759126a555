"""Population-based training: members train in intervals; poor ones continue from the checkpoint of a better one.

Each interval is a trial, so everything is in Optuna's storage: the trial's ``MEMBER``, its ``GENERATION``, and its
``PARENT``, the trial whose checkpoint it started from. Members do not wait for each other: the next interval of a
member is chosen when the cluster has a free slot for it, based on the results of the others so far.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import InvalidInput
from ...schema.arguments import check_integer, is_number, plain
from .optuna_here import optuna
from .trials import AGAIN, GENERATION, MEMBER, PARENT

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

PBT = "pbt"


@dataclass(frozen=True)
class PopulationBased:
    """Population-based training, as the ``sampler`` of ``cluster.search``.

    Members train in intervals, each of which is a trial. After an interval, a member among the worst ``quantile``
    continues from the checkpoint of one of the best members, with a perturbed copy of that member's parameters. The
    other members continue unchanged.

    Attributes:
        population: The number of members.
        quantile: The fraction of the population that is replaced, above 0 and up to 0.5.
        resample: The probability, from 0 to 1, that a parameter of a replaced member is sampled again.
        factors: Factors to choose from: a numeric parameter that is not sampled again is multiplied by one of them.

    Raises:
        InvalidInput: If a value is invalid.

    Example:
        >>> cluster.search(train, space, sampler=dtf.PopulationBased(population=4), trials=40)
    """

    population: int = 8
    quantile: float = 0.25
    resample: float = 0.25
    factors: tuple[float, ...] = (0.8, 1.2)

    def __post_init__(self) -> None:
        for name in ("population", "quantile", "resample", "factors"):
            object.__setattr__(self, name, plain(getattr(self, name)))
        check_integer(self.population, "population", 2)
        for name, most in (("quantile", 0.5), ("resample", 1.0)):
            value = getattr(self, name)
            if not is_number(value) or not 0 <= value <= most:
                raise InvalidInput(f"`{name}` must be a number from 0 to {most}, got {value!r:.100}", field=name)
        if self.quantile == 0:
            raise InvalidInput("`quantile` must be > 0, got 0", field="quantile")
        factors = self.factors
        if not isinstance(factors, (tuple, list)) or not factors or not all(_is_factor(one) for one in factors):
            raise InvalidInput(f"`factors` must be numbers > 0, got {factors!r:.100}", field="factors")


def _is_factor(value: Any) -> bool:
    return is_number(value) and 0 < value < math.inf


def as_population(sampler: Any, *, pruner: Any, objectives: int, trials: int | None) -> PopulationBased | None:
    """Return the settings if ``sampler`` requests population-based training; otherwise None. Raises InvalidInput."""
    if isinstance(sampler, str) and sampler == PBT:
        sampler = PopulationBased()
    if not isinstance(sampler, PopulationBased):
        return None
    if pruner is not None:
        raise InvalidInput(
            "`pruner` must be None with population-based training, which replaces poor members itself", field="pruner"
        )
    if objectives > 1:
        raise InvalidInput(
            f"`objective` must be a single metric for population-based training, got {objectives}", field="objective"
        )
    if trials is not None and trials <= sampler.population:
        raise InvalidInput(
            f"`trials` (the intervals of all members together) must be > {sampler.population}, the population, got "
            f"{trials}",
            field="trials",
        )
    return sampler


@dataclass
class _Member:
    """A member: its successful ``intervals``, and its ``newest`` trial, successful or not."""

    intervals: list[FrozenTrial]
    newest: FrozenTrial


class Population:
    """Chooses the next intervals of the members of ``study``. With a ``seed``, equal results lead to equal choices."""

    def __init__(
        self, plan: PopulationBased, study: Study, space: Mapping[str, BaseDistribution], seed: int | None
    ) -> None:
        self._plan = plan
        self._study = study
        self._space = dict(space)
        self._seed = seed
        self._sign = -1 if study.direction.name == "MAXIMIZE" else 1

    def enqueue(self) -> bool:
        """Add the next interval to the study's queue, unless one is already waiting there.

        Return False if all members are running.
        """
        states = optuna().trial.TrialState
        trials = self._study.get_trials(deepcopy=False)
        if any(trial.state is states.WAITING for trial in trials):
            return True
        members = self._members(trials)
        if len(members) < self._plan.population:
            self._begin(next(number for number in range(self._plan.population) if number not in members))
            return True
        ready = [number for number, member in members.items() if member.newest.state.is_finished()]
        if not ready:
            return False
        # The member that has made the least progress; among several, the one that has waited longest.
        number = min(ready, key=lambda one: (_generation(members[one].newest), members[one].newest.number))
        self._go_on(number, members)
        return True

    def _members(self, trials: Sequence[FrozenTrial]) -> dict[int, _Member]:
        states = optuna().trial.TrialState
        members: dict[int, _Member] = {}
        for trial in trials:
            number = trial.user_attrs.get(MEMBER)
            if number is None or trial.user_attrs.get(AGAIN):
                continue  # it was interrupted and is enqueued a second time
            member = members.setdefault(number, _Member([], trial))
            member.newest = trial
            if trial.state is states.COMPLETE:
                member.intervals.append(trial)
        return members

    def _go_on(self, number: int, members: Mapping[int, _Member]) -> None:
        member = members[number]
        failed = not member.intervals or member.intervals[-1] is not member.newest
        generation = _generation(member.newest)
        known = {}
        for other, each in members.items():
            if so_far := [trial for trial in each.intervals if _generation(trial) <= generation]:
                known[other] = so_far[-1]
        ranked = sorted(known, key=lambda one: (self._sign * (known[one].value or 0.0), one))
        few = min(max(1, int(len(ranked) * self._plan.quantile)), len(ranked) // 2)
        is_bad = failed or number in ranked[len(ranked) - few :]
        best = ranked[: max(few, 1)]
        chance = (
            random.Random() if self._seed is None else random.Random(f"{self._seed} {number} {member.newest.number}")
        )
        if not is_bad:
            self._put(number, generation + 1, known[number], dict(known[number].params))
        elif best:
            parent = known[chance.choice(best)]
            params = perturbed(parent.params, self._space, self._plan, chance)
            self._put(number, generation + (not failed), parent, params)
        else:  # no member has completed an interval yet
            self._begin(number)

    def _begin(self, number: int) -> None:
        """Enqueue the first interval of a member, with parameters from the study's sampler."""
        self._study.enqueue_trial({}, user_attrs={MEMBER: number, GENERATION: 0})

    def _put(self, number: int, generation: int, parent: FrozenTrial, params: dict[str, Any]) -> None:
        attrs = {MEMBER: number, GENERATION: generation, PARENT: parent.number}
        self._study.enqueue_trial(params, user_attrs=attrs)


def _generation(trial: FrozenTrial) -> int:
    return int(trial.user_attrs.get(GENERATION, 0))


def perturbed(
    params: Mapping[str, Any], space: Mapping[str, BaseDistribution], plan: PopulationBased, chance: random.Random
) -> dict[str, Any]:
    """Return the parameters, perturbed within ``space``. Parameters that are missing or of another type are sampled."""
    return {name: _changed(params.get(name), distribution, plan, chance) for name, distribution in space.items()}


def _changed(value: Any, distribution: BaseDistribution, plan: PopulationBased, chance: random.Random) -> Any:
    kinds = optuna().distributions
    anew = chance.random() < plan.resample
    if isinstance(distribution, kinds.CategoricalDistribution):
        return chance.choice(distribution.choices) if anew or value not in distribution.choices else value
    anew = anew or isinstance(value, bool) or not isinstance(value, (int, float))  # from a study with another space
    low, high, step = distribution.low, distribution.high, distribution.step  # type: ignore[attr-defined]
    if anew and distribution.log:  # type: ignore[attr-defined]
        wanted = math.exp(chance.uniform(math.log(low), math.log(high)))
    elif anew:
        wanted = chance.uniform(low, high)
    else:
        wanted = value * chance.choice(plan.factors)
    wanted = min(max(wanted, low), high)
    if step is None:
        return float(wanted)
    steps = round((wanted - low) / step)
    if not anew and low + steps * step == value and wanted != value:  # scaling by less than a step: move by one
        steps += 1 if wanted > value else -1
    most = round((high - low) / step)
    found = low + min(max(steps, 0), most) * step
    return int(found) if isinstance(distribution, kinds.IntDistribution) else float(found)
