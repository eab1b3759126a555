"""Plans: the fewest tasks that reach a target, as designs that can be opened."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from jupyter_dtf.backend.planning import check_design
from jupyter_dtf.backend.planning.design_forecast import forecasts
from jupyter_dtf.backend.planning.scale_plan import plan
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.design import Design, ModelDesign
from jupyter_dtf.schema.forecast import ForecastSettings
from jupyter_dtf.schema.scale_plan import ScaleTarget
from tests.python.backend.planning.test_forecast import chain

A100: dict[str, Any] = {
    "device": "A100", "network": "25gbit", "local": "nvlink3", "devices_per_machine": 8, "per_device": 256,
}  # fmt: skip


def design() -> Design:
    return Design(model=ModelDesign(graph=chain()))


def rate(settings: ForecastSettings, tasks: int) -> float:
    ((point,),) = ([found.points for found in forecasts(design(), [msgspec.structs.replace(settings, tasks=[tasks])])],)
    return point[0].examples_per_second


def test_the_fewest_tasks_that_reach_it() -> None:
    settings = ForecastSettings(**A100)
    wanted = rate(settings, 11)
    found = plan(design(), ScaleTarget(examples_per_second=wanted), [settings])
    assert found.reached and found.best.point.tasks == 11
    assert found.best.point.machines == 2
    assert rate(settings, 10) < wanted
    assert "11 tasks on 2 machines" in found.why and repr(found).startswith(found.why)


def test_the_design_opens_and_has_nothing_wrong() -> None:
    settings = ForecastSettings(**A100)
    found = plan(design(), ScaleTarget(examples_per_second=rate(settings, 11)), [settings])
    assert found.design is not None
    opened = Design.parse(found.design.text())
    assert opened.cluster.jobs == {"worker": 11}
    assert [len(host.gpus) for host in opened.cluster.hosts] == [8, 3]
    assert opened.run.batch_size == 11 * 256
    assert [problem for problem in check_design.check(opened).problems if problem.level == "error"] == []
    assert check_design.check(opened).devices["worker:10"] == "/job:worker/task:10/device:GPU:0"


def test_a_pipeline_is_placed() -> None:
    settings = ForecastSettings(**A100, strategy="pipeline", stages=2, microbatches=8)
    found = plan(design(), ScaleTarget(examples_per_second=rate(settings, 4)), [settings])
    assert found.design is not None and found.best.point.tasks == 4
    assert found.design.run.replicas == 2
    placed = set(found.design.placement.devices.values())
    assert placed and placed <= {"/job:worker/task:0/device:GPU:0", "/job:worker/task:1/device:GPU:0"}
    assert [p for p in check_design.check(found.design).problems if p.level == "error"] == []


def test_a_budget_finds_the_fastest_within_it() -> None:
    settings = ForecastSettings(**A100)
    alone = 1e9 / rate(settings, 1) / 3600
    found = plan(design(), ScaleTarget(device_hours=alone * 1.5, examples=1e9), [settings])
    assert found.reached and found.best.point.tasks > 1
    assert found.best.device_hours <= alone * 1.5
    nothing = plan(design(), ScaleTarget(device_hours=alone / 2, examples=1e9), [settings])
    assert not nothing.reached and nothing.design is None
    assert nothing.why.startswith("No tested option reaches 1G examples for ")


def test_the_best_strategy_comes_first() -> None:
    slow = ForecastSettings(**A100, strategy="mirrored")
    settings = ForecastSettings(**A100)
    found = plan(design(), ScaleTarget(hours=1e9 / rate(settings, 16) / 3600, examples=1e9), [slow, settings])
    assert found.best.settings.strategy == "allreduce" and found.best.point.tasks == 16
    assert [option.settings.strategy for option in found.others] == ["mirrored"]


def test_what_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Exactly one of `examples_per_second`, `hours` and `device_hours` must be"):
        ScaleTarget()
    with pytest.raises(InvalidInput, match="`examples` must be a number > 0 with hours or device_hours"):
        ScaleTarget(hours=3)
    with pytest.raises(InvalidInput) as caught:
        plan(design(), ScaleTarget(examples_per_second=1), [ForecastSettings(), ForecastSettings(device="B9")])
    assert caught.value.field == "settings.1.device"
    with pytest.raises(InvalidInput, match="needs a design with a model|must have at least one layer"):
        plan(Design(), ScaleTarget(examples_per_second=1))
