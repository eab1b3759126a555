"""Tests of the routes for forecasts, plans, hardware and efficiency."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.schema.base import convert, to_plain
from jupyter_dtf.schema.design import Design
from jupyter_dtf.schema.forecast import Forecast
from jupyter_dtf.schema.hardware import Hardware
from jupyter_dtf.schema.scale_plan import ScalePlan

from .conftest import Api
from .fleet import MemoryFleet
from .test_runs import feed

DESIGN: Any = to_plain(Design.parse((Path(__file__).parents[2] / "designs" / "full.dtf").read_text(encoding="utf-8")))


async def test_a_design_is_forecast_once_for_each_of_the_settings(fleet: MemoryFleet, api: Api) -> None:
    settings = [{"tasks": [1, 4]}, {"strategy": "ps", "sync": True, "device": "A100", "network": "25gbit"}]
    body = {"design": DESIGN, "settings": settings}
    first, second = (convert(each, Forecast) for each in await api("POST", "designs", "forecast", body=body))
    assert first.source == "calibration" and [point.tasks for point in first.points] == [1, 4]
    assert second.source == "published" and second.title == "1 parameter server, synchronous, 25 Gbit/s Ethernet (TCP)"
    assert second.points[-1].tasks == 512 and second.settings.per_device > 0


async def test_what_is_wrong_has_its_field(fleet: MemoryFleet, api: Api) -> None:
    error = await api.refused(400, "POST", "designs", "forecast", body={"design": {}})
    assert error["field"] == "model"
    body = {"design": DESIGN, "settings": [{}, {"device": "B9"}]}
    error = await api.refused(400, "POST", "designs", "forecast", body=body)
    assert error["field"] == "settings.1.device"
    body = {"design": DESIGN, "settings": [{"strategy": "magic"}]}
    assert (await api.refused(400, "POST", "designs", "forecast", body=body))["field"].endswith("strategy")


async def test_a_plan_is_a_design(fleet: MemoryFleet, api: Api) -> None:
    body = {"design": DESIGN, "target": {"examples_per_second": 1e5}, "settings": [{"network": "100gbit"}]}
    found = convert(await api("POST", "designs", "plan", body=body), ScalePlan)
    assert found.reached and found.design is not None
    assert sum(found.design.cluster.jobs.values()) >= found.best.point.tasks
    assert (await api.refused(400, "POST", "designs", "plan", body={**body, "target": {}}))["field"]


async def test_hardware_has_names_for_select_boxes(fleet: MemoryFleet, api: Api) -> None:
    found = convert(await api("GET", "hardware"), Hardware)
    assert {"A100", "H100", "CPU"} <= {device.name for device in found.devices}
    assert {network.is_local for network in found.networks} == {True, False}
    assert all(device.source and device.flops_per_s["fp32"] > 0 for device in found.devices)


async def test_runs_of_which_nothing_is_known(fleet: MemoryFleet, hub: Hub, api: Api) -> None:
    feed(hub)
    error = await api.refused(409, "POST", "runs", "r1", "forecast", body={})
    assert error["message"].startswith("To be forecast, a run must train with one of")
    report = await api("GET", "runs", "r1", "efficiency")
    assert report["run"] == "r1" and report["findings"]
    await api.refused(404, "GET", "runs", "nobody", "efficiency")
    await api.refused(404, "POST", "runs", "nobody", "forecast", body={})
