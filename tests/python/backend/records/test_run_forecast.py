"""Forecasts from a run's own steps, and the efficiency report of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jupyter_dtf.backend.records.run_forecast import efficiency, run_forecast
from jupyter_dtf.backend.records.run_record import RunRecord
from jupyter_dtf.backend.records.series import Columns, Series
from jupyter_dtf.errors import Conflict, InvalidInput
from jupyter_dtf.schema.forecast import ForecastSettings
from jupyter_dtf.schema.metrics import STEP_CHECKPOINT, STEP_COMPUTE, STEP_EXCHANGE, STEP_INPUT, STEP_WAIT
from jupyter_dtf.schema.origin import Origin
from jupyter_dtf.schema.run import RunDescriptor


def series(*values: float) -> Series:
    made = Series()
    steps = np.arange(1, 1 + len(values), dtype=float)
    made.extend(Columns(step=steps, time=steps, value=np.array(values), seq=np.arange(len(values))))
    return made


def record(step_s: dict[str, float], network: dict[str, float] | None = None, **fields: Any) -> RunRecord:
    """Return the record of a run, given each task's seconds per step and the share of them spent in exchanges."""
    told: dict[str, Any] = {
        "id": "r1",
        "name": "mlp",
        "cluster": "lab",
        "kind": "fit",
        "strategy": "allreduce",
        "jobs": {"worker": len(step_s)},
        "parameters": {"batch_size": 64},
        "origin": Origin(model="mlp", weights=250_000),
    }
    made = RunRecord(RunDescriptor(**{**told, **fields}))
    for task, seconds in step_s.items():
        made.series["step_seconds", task] = series(9.0, 9.0, 9.0, 9.0, *[seconds] * 20)
        made.series["examples_per_second", task] = series(*[64 / seconds] * 24)
    for task, share in (network or {}).items():
        made.series["network_seconds", task] = series(*[share] * 5)
    return made


TWO = {"worker:0": 0.1, "worker:1": 0.1}


def test_compute_is_the_step_without_its_exchange() -> None:
    found = run_forecast(record(TWO, {"worker:0": 0.2, "worker:1": 0.3}), ForecastSettings(tasks=[1, 2, 64]))
    assert found.source == "run" and found.model == "mlp"
    assert found.settings.per_device == 32
    assert found.at(1).parts.compute_s == pytest.approx(0.08)
    assert found.at(1).examples_per_second == pytest.approx(32 / 0.08)
    assert found.at(64).efficiency < found.at(2).efficiency < 1
    assert found.notes[0] == "Compute times come from 20 steps of the run, without their exchange."


def test_an_exchange_that_nobody_measured_is_said_to_be_assumed() -> None:
    found = run_forecast(record(TWO), ForecastSettings())
    assert any("The duration of the exchange was not measured" in note for note in found.notes)
    found = run_forecast(record(TWO, origin=Origin()), ForecastSettings())
    assert "The model's number of parameters is unknown, so their exchange is left out." in found.notes


@pytest.mark.parametrize("strategy", ["allreduce", "ps", "mirrored"])
def test_it_is_of_the_runs_strategy_unless_another_is_asked_for(strategy: str) -> None:
    assert run_forecast(record(TWO, strategy=strategy), ForecastSettings()).settings.strategy == strategy
    other = run_forecast(record(TWO, strategy=strategy), ForecastSettings(strategy="pipeline"))
    assert other.settings.strategy == "pipeline"


@pytest.mark.parametrize("fields", [{"strategy": "pipeline"}, {"kind": "program", "strategy": ""}])
def test_runs_that_are_not_forecast(fields: dict[str, Any]) -> None:
    with pytest.raises(Conflict, match="To be forecast, a run must train with one of allreduce, ps, mirrored"):
        run_forecast(record(TWO, **fields), ForecastSettings())
    with pytest.raises(Conflict, match="have completed at least 8 steps"):
        run_forecast(RunRecord(RunDescriptor(id="r", name="n", cluster="c", kind="fit")), ForecastSettings())
    assert "can be compared with a forecast" in efficiency(record(TWO, **fields)).findings[0]


def test_the_straggler_is_named() -> None:
    network = {"worker:0": 0.5, "worker:1": 0.5, "worker:2": 0.05}
    found = efficiency(record(dict.fromkeys(network, 0.1), network))
    assert found.slowest == "worker:2"
    assert found.findings[0].startswith("Straggler: worker:2 takes 95 ms for its own part of a step, the others 50 ms")
    assert (found.tasks, found.steps) == (3, 20) and found.efficiency == pytest.approx(0.95)


def test_an_exchange_that_is_longer_than_forecast_is_said() -> None:
    found = efficiency(record(TWO, {"worker:0": 0.6, "worker:1": 0.6}))
    gaps = {gap.part: gap for gap in found.gaps}
    assert gaps["exchange"].measured_s == pytest.approx(0.06)
    assert gaps["exchange"].forecast_s < 0.01
    assert found.findings[0].startswith("The exchange is not hidden: it takes 60 ms of a step, but ")
    assert "exchange" in repr(found)


def test_what_was_not_measured_is_named() -> None:
    found = efficiency(record(TWO))
    assert found.efficiency is None
    assert found.findings == ["Not measured by this run: input, compute, exchange, update."]
    few = efficiency(RunRecord(RunDescriptor(id="r", name="n", cluster="c", kind="fit", strategy="allreduce")))
    assert few.steps == 0 and "its efficiency is not known yet" in few.findings[0]


def test_a_forecast_from_elsewhere_is_laid_over() -> None:
    ahead = run_forecast(record({"worker:0": 0.02, "worker:1": 0.02}, {"worker:0": 0.1}), ForecastSettings(tasks=[2]))
    found = efficiency(record(TWO, {"worker:0": 0.1, "worker:1": 0.1}), ahead)
    assert [finding.partition(":")[0] for finding in found.findings[:2]] == [
        "A step is longer than forecast",
        "Computing, including input and update, is slower than forecast",
    ]
    with pytest.raises(InvalidInput, match="`tasks` must be one of 2, got 3"):
        efficiency(record({f"worker:{number}": 0.1 for number in range(3)}), ahead)


def test_exchanges_that_overlap_take_a_whole_step_at_most() -> None:
    found = efficiency(record(TWO, {"worker:0": 1.4, "worker:1": 1.2}))
    measured = {gap.part: gap.measured_s for gap in found.gaps}
    assert measured["exchange"] == pytest.approx(0.1)
    assert measured["compute"] == pytest.approx(0.0)
    assert found.efficiency == 0.0


def with_parts(told: dict[str, dict[str, float]], **fields: Any) -> RunRecord:
    """Return the record of a run with steps of 0.1 s, given each task's mean seconds per metric, over two points."""
    made = record(dict.fromkeys(told, 0.1), **fields)
    for task, parts in told.items():
        for metric, seconds in parts.items():
            made.series[metric, task] = series(0.5 * seconds, 1.5 * seconds)
    return made


SLOW_INPUT = {
    "worker:0": {STEP_COMPUTE: 0.02, STEP_INPUT: 0.07, STEP_EXCHANGE: 0.01, STEP_WAIT: 0.002, STEP_CHECKPOINT: 0.03},
    "worker:1": {STEP_COMPUTE: 0.02, STEP_INPUT: 0.0, STEP_EXCHANGE: 0.08, STEP_WAIT: 0.07, STEP_CHECKPOINT: 0.0},
}


def test_measured_parts_are_those_of_the_task_that_the_others_wait_for() -> None:
    found = efficiency(with_parts(SLOW_INPUT))
    assert {gap.part: gap.measured_s for gap in found.gaps} == {
        "step": pytest.approx(0.1),
        "input": pytest.approx(0.07),
        "compute": pytest.approx(0.02),
        "exchange": pytest.approx(0.01),
        "update": None,
        "checkpoint": pytest.approx(0.03),
    }
    forecast = {gap.part: gap.forecast_s for gap in found.gaps}
    assert forecast["compute"] == pytest.approx(0.02), "what is waited for batches is no computing"
    assert found.slowest == "worker:0" and found.efficiency == pytest.approx(0.9)
    assert found.findings[0] == (
        "Straggler: worker:0 takes 90 ms for its own part of a step, the others 20 ms; they wait for it. It waits "
        "70 ms of each step for its batch, the others 0 s."
    )
    assert [finding.partition(":")[0] for finding in found.findings[1:]] == [
        "A step is longer than forecast",
        "The input is too slow",
        "Taking checkpoints is slow",
        "Not measured by this run",
    ]
    assert "of that, 2 ms waiting for others" in repr(found)


def test_parts_without_an_exchange_leave_it_out() -> None:
    told = {"worker:0": {STEP_COMPUTE: 0.06, STEP_INPUT: 0.04, STEP_CHECKPOINT: 0.0}}
    found = {gap.part: gap for gap in efficiency(with_parts(told, strategy="mirrored")).gaps}
    assert found["input"].measured_s == pytest.approx(0.04)
    assert found["exchange"].measured_s is None and found["compute"].measured_s is None
    assert found["exchange"].text == "not measured: TensorFlow performs it"
    assert "checkpoint" not in found


def test_who_waits_for_nobody_has_no_straggler() -> None:
    apart = with_parts(SLOW_INPUT, strategy="ps", parameters={"sync": False, "batch_size": 64})
    assert efficiency(apart).slowest == ""
