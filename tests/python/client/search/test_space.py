"""Tests of how users specify search spaces, samplers, pruners and objectives, and of the errors for invalid ones."""

from __future__ import annotations

from typing import Any

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import HyperbandPruner
from optuna.samplers import GridSampler

from jupyter_dtf.client.launch import combined
from jupyter_dtf.client.search.space import as_space, combinations
from jupyter_dtf.client.search.study import PRUNERS, SAMPLERS, as_objectives, as_pruner, as_sampler, open_study
from jupyter_dtf.client.search.trial_runs import Places
from jupyter_dtf.errors import InvalidInput


def test_short_ways_to_write_distributions() -> None:
    own = FloatDistribution(0.0, 1.0, step=0.5)
    space = as_space(
        {"a": ["x", None], "b": (1, 8), "c": (1e-4, 1.0, "log"), "d": range(8, 0, -2), "e": own, "f": (0, 0.5)}
    )
    assert space == {
        "a": CategoricalDistribution(["x", None]),
        "b": IntDistribution(1, 8),
        "c": FloatDistribution(1e-4, 1.0, log=True),
        "d": IntDistribution(2, 8, step=2),
        "e": own,
        "f": FloatDistribution(0.0, 0.5),
    }


@pytest.mark.parametrize("given", [3, [], (1,), (2, 1), (0, 1, "log"), (1, 2, "lin"), (False, True), "ab"])
def test_what_is_no_distribution_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput, match="space\\['a'\\]"):
        as_space({"a": given})


def test_a_grid_is_of_choices_and_steps() -> None:
    space = as_space({"a": ["x", "y"], "b": (1, 2), "c": FloatDistribution(0.0, 1.0, step=0.5)})
    found = combinations(space)
    assert len(found) == 12
    assert {"a": "y", "b": 2, "c": 0.5} in found
    with pytest.raises(InvalidInput, match="choices or a step"):
        combinations(as_space({"a": (0.0, 1.0)}))


def test_samplers_and_pruners_by_name() -> None:
    for name in sorted(set(SAMPLERS) - {"cmaes", "gp"}):  # they need further packages
        as_sampler(name, 1)
    for name in PRUNERS:
        as_pruner(name)
    own = HyperbandPruner()
    assert as_pruner(own) is own
    with pytest.raises(InvalidInput, match="tpe, random, grid.*got 'best'"):
        as_sampler("best", None)
    with pytest.raises(InvalidInput, match="`sampler` must be 'grid'"):
        as_sampler(GridSampler({"a": [1]}), None)
    with pytest.raises(InvalidInput, match="median, asha"):
        as_pruner("often")


def test_objectives() -> None:
    assert as_objectives("loss", "minimize") == (["loss"], ["minimize"])
    assert as_objectives(["loss", "size"], "minimize") == (["loss", "size"], ["minimize", "minimize"])
    for objective, direction in (
        ("loss", "down"),
        (["a", "b"], ["minimize"]),
        ([], "minimize"),
        (["a", "a"], "minimize"),
    ):
        with pytest.raises(InvalidInput):
            as_objectives(objective, direction)


def test_a_study_goes_on_in_its_own_direction_only() -> None:
    from optuna.storages import InMemoryStorage

    storage, sampler, pruner = InMemoryStorage(), as_sampler("tpe", 1), as_pruner(None)
    open_study("one", storage, sampler, pruner, ["minimize"])
    open_study("one", storage, sampler, pruner, ["minimize"])
    with pytest.raises(InvalidInput, match="`direction` must be"):
        open_study("one", storage, sampler, pruner, ["maximize"])
    with pytest.raises(InvalidInput, match="study_name"):
        open_study(None, storage, sampler, pruner, ["minimize"])


def test_the_lists_of_a_launch() -> None:
    assert combined({"a": [1, 2], "b": ["x", "y"]}, grid=False) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert len(combined({"a": [1, 2, 3], "b": range(2)}, grid=True)) == 6
    with pytest.raises(InvalidInput, match="{'a': 1, 'b': 2}"):
        combined({"a": [1], "b": [1, 2]}, grid=False)
    for given in ({}, {"a": "abc"}, {"a": 1}, {"not a name": [1]}, [1]):
        with pytest.raises(InvalidInput, match="args_dict"):
            combined(given, grid=False)
    for own in ("state", "error", "seconds", "run"):
        with pytest.raises(InvalidInput, match=f"other columns of the table, got '{own}'"):
            combined({"a": [1], own: [2]}, grid=False)


def test_places_of_a_trial() -> None:
    assert (Places.of(None, 2), Places.of(4, 2)) == (Places(2, 1), Places(2, 2))
    assert (Places.of(0.5, 1), Places.of(1, 2), Places.of(1 / 3, 1)) == (
        Places(1, 1, 2),
        Places(2, 1, 2),
        Places(1, 1, 3),
    )
    assert Places.of(1 / 64, 1) == Places(1, 1, 64)
    refused = ((3, 2), (0, 1), (None, 0), (1, True), (0.4, 1), (1.5, 1), (float("nan"), 1), (1 / 65, 1), (5e-324, 1))
    for devices, tasks in refused:
        with pytest.raises(InvalidInput):
            Places.of(devices, tasks)
