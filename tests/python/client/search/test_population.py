"""Tests of how population-based training chooses each member's next trial, and of the arguments that it refuses."""

from __future__ import annotations

import random
from typing import Any

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import Trial, TrialState

from jupyter_dtf.client.search.population import Population, PopulationBased, as_population, perturbed
from jupyter_dtf.client.search.study import as_pruner, as_sampler, open_study
from jupyter_dtf.errors import InvalidInput

SPACE = {"rate": FloatDistribution(0.001, 1.0, log=True), "units": IntDistribution(1, 64)}


def population(**given: Any) -> Population:
    study = open_study(None, None, as_sampler("random", 1), as_pruner(None), ["minimize"])
    return Population(PopulationBased(population=4, resample=0.0, **given), study, SPACE, 1)


def begin(one: Population) -> Trial:
    assert one.enqueue()
    return one._study.ask(fixed_distributions=SPACE)


def attrs(trial: Trial) -> tuple[int, int, int | None]:
    told = trial.user_attrs
    return told["member"], told["generation"], told.get("parent")


def test_the_worst_go_on_from_one_of_the_best_and_nobody_waits() -> None:
    members = population()
    first = [begin(members) for _ in range(4)]
    assert [attrs(trial) for trial in first] == [(number, 0, None) for number in range(4)]
    assert not members.enqueue()  # all are under way
    members._study.tell(first[2], 9.0)
    alone = begin(members)
    assert attrs(alone) == (2, 1, 2)  # no other member is known to be better
    assert alone.params == first[2].params
    members._study.tell(first[1], 1.0)
    assert attrs(begin(members)) == (1, 1, 1)
    members._study.tell(first[0], 10.0)
    worst = begin(members)
    assert attrs(worst) == (0, 1, 1)
    assert worst.params["rate"] / first[1].params["rate"] == pytest.approx(0.8, abs=1e-9) or worst.params[
        "rate"
    ] == pytest.approx(min(1.0, first[1].params["rate"] * 1.2))
    members._study.tell(first[3], state=TrialState.FAIL)
    failed = begin(members)
    assert attrs(failed)[0::2] == (3, 1)  # its place in the population goes to a child of another member
    assert not members.enqueue()


def test_members_are_found_again_in_the_study() -> None:
    before = population()
    trials = [begin(before) for _ in range(4)]
    for value, trial in enumerate(trials):
        before._study.tell(trial, float(value))
    again = Population(before._plan, before._study, SPACE, 1)
    assert attrs(begin(again)) == (0, 1, 0)


def test_parameters_stay_within_the_space() -> None:
    space = {"a": IntDistribution(1, 3), "b": FloatDistribution(0.0, 1.0, step=0.25), "c": CategoricalDistribution([7])}
    chance = random.Random(1)
    seen = set()
    for _ in range(200):
        found = perturbed({"a": 2, "b": 0.5, "c": 7}, space, PopulationBased(resample=0.5), chance)
        for name, distribution in space.items():
            assert distribution._contains(distribution.to_internal_repr(found[name]))
        seen.add((found["a"], found["b"]))
    assert {a for a, _ in seen} == {1, 2, 3}
    kept = perturbed({"a": 2, "b": 0.5, "c": 7}, space, PopulationBased(resample=0.0, factors=(1.2,)), chance)
    assert kept == {"a": 3, "b": 0.75, "c": 7}  # a factor changes a small number by at least one step


def test_a_study_goes_on_with_parameters_more_and_other_choices() -> None:
    before = population()
    for value, trial in enumerate([begin(before) for _ in range(4)]):
        before._study.tell(trial, float(value))
    other = {**SPACE, "decay": FloatDistribution(0.1, 0.2), "kind": CategoricalDistribution(["new"])}
    again = Population(before._plan, before._study, other, 1)
    for _ in range(8):
        assert again.enqueue()
        trial = again._study.ask(fixed_distributions=other)
        assert trial.params.keys() == other.keys()
        assert 0.1 <= trial.params["decay"] <= 0.2
        again._study.tell(trial, 1.0)
    found = perturbed({"rate": "high", "kind": "old"}, other, PopulationBased(resample=0.0), random.Random(1))
    assert found["kind"] == "new"
    assert 0.001 <= found["rate"] <= 1.0


def test_what_goes_not_with_it_is_refused() -> None:
    with pytest.raises(InvalidInput, match="pruner"):
        as_population("pbt", pruner="median", objectives=1, trials=40)
    with pytest.raises(InvalidInput, match="must be a single metric"):
        as_population("pbt", pruner=None, objectives=2, trials=40)
    with pytest.raises(InvalidInput, match="must be > 8"):
        as_population("pbt", pruner=None, objectives=1, trials=8)
    assert as_population("tpe", pruner=None, objectives=1, trials=8) is None
    for given in ({"population": 1}, {"quantile": 0.7}, {"quantile": 0}, {"resample": 2}, {"factors": (0,)}):
        with pytest.raises(InvalidInput):
            PopulationBased(**given)
