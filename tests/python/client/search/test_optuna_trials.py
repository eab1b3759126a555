"""Tests of how ended trials are recorded in a study and which of their files are kept, without a cluster."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optuna import Study
from optuna.pruners import ThresholdPruner

from jupyter_dtf.backend.task.trial_model import FILE, OWN
from jupyter_dtf.client.search.optuna_trials import AskedTrials
from jupyter_dtf.client.search.population import Population, PopulationBased
from jupyter_dtf.client.search.space import as_space, combinations
from jupyter_dtf.client.search.study import as_pruner, as_sampler, enqueue_new, open_study, seed_of_more
from jupyter_dtf.client.search.trial_runs import Ended, kind_of
from jupyter_dtf.schema.run import RunDescriptor, RunInfo, RunState
from jupyter_dtf.schema.search_trial import as_value, objective_values

SPACE = as_space({"rate": (0.001, 1.0, "log")})


def a_study(direction: str = "minimize", storage: str | None = None) -> Study:
    return open_study("study", storage, as_sampler("random", 1), as_pruner(None), [direction])


def trains(params: dict[str, Any], ctx: Any) -> float:
    return float(params["rate"])


def succeeded(number: int, directory: Path, value: float) -> Ended:
    run_dir = directory / str(number)
    (run_dir / "checkpoints").mkdir(parents=True, exist_ok=True)
    told = RunDescriptor(
        id=str(number), name="", cluster="", kind="trial", strategy="", jobs={"worker": 1}, created=0.0,
        parameters={}, run_dir=str(run_dir),
    )  # fmt: skip
    info = RunInfo.of(told)
    info.state = RunState.SUCCEEDED
    return Ended(number, info, value)


def test_what_a_pruned_trial_still_reports_does_not_prune_it_again() -> None:
    study = open_study("study", None, as_sampler("random", 1), as_pruner(ThresholdPruner(lower=5)), ["maximize"])
    asked = AskedTrials(study, trains, SPACE, ["value"], 1, keeps=False)
    following = asked.next()
    assert following is not None
    assert [asked.reported(following.number, [(step, value)]) for step, value in ((1, 6), (2, 4), (3, 3), (4, 9))] == [
        False,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 10**400], ids=["inf", "-inf", "nan", "10**400"])
def test_a_value_that_is_no_finite_number_is_a_failure(value: float, tmp_path: Path) -> None:
    study = a_study("maximize")
    asked = AskedTrials(study, trains, SPACE, ["value"], 2, keeps=False)
    for each in (value, 3.0):
        following = asked.next()
        assert following is not None
        asked.ended(succeeded(following.number, tmp_path, each))
    assert [trial.state.name for trial in study.trials] == ["FAIL", "COMPLETE"]
    assert "finite" in study.trials[0].user_attrs["error"]
    assert study.best_trial.number == 1


@pytest.mark.parametrize(
    "value", [0.5, np.float32(0.5), np.array(0.5), [np.float64(0.5)], {"value": np.float16(0.5)}], ids=str
)
def test_numbers_of_numpy_and_tensors_are_values(value: Any) -> None:
    assert {name: as_value(each) for name, each in objective_values(value, ["value"]).items()} == {"value": 0.5}


@pytest.mark.parametrize("value", [True, "0.5", None, np.array([0.5, 1]), np.array(True), {"other": 1}], ids=str)
def test_what_is_no_number_is_no_value(value: Any) -> None:
    found = objective_values(value, ["value"])
    assert found == {} or math.isnan(as_value(found["value"]))


def traced(line: int, error: str) -> str:
    return f'Traceback (most recent call last):\n  File "train.py", line {line}, in train\n    read(shard)\n{error}\n'


def test_errors_are_the_same_by_their_kind_and_place() -> None:
    """Messages of exceptions are not compared, because they contain values of the trial, such as paths or shapes."""
    first = kind_of("OSError: no shard 0.31", traced(7, "OSError: no shard 0.31"))
    assert first == kind_of("OSError: no shard 0.77", traced(7, "OSError: no shard 0.77"))
    assert first != kind_of("OSError: no shard 0.31", traced(9, "OSError: no shard 0.31"))
    assert first != kind_of("ValueError: no shard", traced(7, "ValueError: no shard"))
    assert kind_of("died (SIGKILL)", "") == kind_of("died (SIGKILL)", "") != kind_of("died (SIGBUS)", "")


def test_children_find_what_their_parents_have_saved(tmp_path: Path) -> None:
    """Only the best trials keep their automatically saved models; what programs have saved is kept for all trials."""
    study = a_study()
    plan = Population(PopulationBased(population=4), study, SPACE, 1)
    asked = AskedTrials(study, trains, SPACE, ["value"], 24, keeps=False, keep_models=2, population=plan)
    children = 0
    while (following := asked.next()) is not None:
        if following.goes_on_from:
            children += 1
            assert (Path(following.goes_on_from) / OWN).is_file()
        trial = succeeded(following.number, tmp_path, 1 / (following.number + 1) + following.number % 4)
        (Path(trial.info.run_dir) / FILE).touch()
        (Path(trial.info.run_dir) / "checkpoints" / OWN).touch()
        asked.ended(trial)
    assert children == 20
    assert len(list(tmp_path.glob(f"*/{FILE}"))) == 2
    assert len(list(tmp_path.glob(f"*/checkpoints/{OWN}"))) == 24


def test_a_study_that_goes_on_is_told_other_parameters(tmp_path: Path) -> None:
    """If a study is continued with the same seed, its sampler does not suggest the same parameters again."""
    seed, drawn = 4, []
    for _ in range(2):
        study = a_study(storage=f"sqlite:///{tmp_path / 'study.db'}")
        study.sampler = as_sampler("random", seed_of_more(seed, study))
        asked = AskedTrials(study, trains, SPACE, ["value"], 6, keeps=True)
        for _ in range(3):
            following = asked.next()
            assert following is not None
            drawn.append(following.parameters["rate"])
            asked.ended(succeeded(following.number, tmp_path, 1.0))
    assert len(set(drawn)) == 6
    assert seed_of_more(None, study) is None


def test_a_grid_is_enqueued_once_and_known_trials_looked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = as_space({"a": [1, 2.5, "x", None], "b": range(50)})
    study = a_study(storage=f"sqlite:///{tmp_path / 'study.db'}")
    grid = combinations(space)
    enqueue_new(study, grid[:3])
    asked = AskedTrials(study, trains, space, ["value"], None, keeps=True)
    for _ in range(2):
        following = asked.next()
        assert following is not None
        asked.ended(succeeded(following.number, tmp_path, 1.0))
    looked = []
    all_trials = study.get_trials

    def look(*args: Any, **named: Any) -> Any:
        looked.append(1)
        return all_trials(*args, **named)

    monkeypatch.setattr(study, "get_trials", look)
    enqueue_new(study, grid)
    assert len(looked) == 1
    tried = [trial.params or trial.system_attrs["fixed_params"] for trial in all_trials(deepcopy=False)]
    assert tried == grid
