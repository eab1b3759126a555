"""Forecasts, compared with the formulas that they consist of and with properties that hold for all of them."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from jupyter_dtf.backend.planning import order_statistics, servers_law, workload
from jupyter_dtf.backend.planning.allreduce_time import allreduce_s, overlapped, ring_s, tree_s
from jupyter_dtf.backend.planning.forecast import Machines, forecast
from jupyter_dtf.backend.planning.networks import Fabric
from jupyter_dtf.backend.planning.pipeline_law import Layered, Staged
from jupyter_dtf.backend.planning.prediction import predict
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.forecast import Forecast, ForecastSettings
from jupyter_dtf.schema.graph import Edge, Layer, LayerGraph
from jupyter_dtf.schema.placement import Calibration, Device, Link

LINK = Link(bytes_per_s=1e9, latency_s=1e-5)
FAST = Link(bytes_per_s=9e17, latency_s=0.0)


def chain(count: int = 8, flops: int = 10**8, weights: int = 10**5) -> LayerGraph:
    size = 4 * weights
    layers = [
        Layer(
            id=f"l{index}",
            kind="Dense",
            flops=flops,
            parameters=weights,
            parameter_bytes=size,
            gradient_bytes=size,
            slot_bytes=size,
            activation_bytes=4096,
        )
        for index in range(count)
    ]
    edges = [Edge(source=f"l{index}", target=f"l{index + 1}", bytes=4096) for index in range(count - 1)]
    return LayerGraph(model="m", layers=layers, edges=edges)


def made(machines: Machines | None = None, calibration: Calibration | None = None, **settings: Any) -> Forecast:
    return forecast(chain(), ForecastSettings(**settings), machines, calibration)


ALL: list[dict[str, Any]] = [
    {},
    {"algorithm": "ring", "devices_per_machine": 4},
    {"algorithm": "tree", "devices_per_machine": 4},
    {"device": "A100", "precision": "tf32", "network": "25gbit", "devices_per_machine": 8, "compression": "fp16"},
    {"strategy": "ps", "servers": 4},
    {"strategy": "ps", "servers": 4, "sync": True},
    {"strategy": "ps", "sync": True, "backup_workers": 1, "tasks": [2, 4, 64], "straggling": 0.3},
    {"strategy": "mirrored"},
    {"strategy": "pipeline"},
    {"strategy": "pipeline", "replicas": 1, "tasks": [1, 2, 8], "device": "V100"},
    {"batch_size": 4096, "input_examples_per_s": 5.0},
]


@pytest.mark.parametrize("settings", ALL)
def test_parts_add_up_and_the_band_is_around_the_value(settings: dict[str, Any]) -> None:
    found = made(**settings)
    for point in found.points:
        parts = point.parts
        sums = parts.input_s + parts.compute_s + parts.exposed_s + parts.update_s + parts.idle_s
        assert sums == pytest.approx(point.step_seconds, rel=1e-6)
        assert min(parts.input_s, parts.compute_s, parts.hidden_s, parts.exposed_s, parts.update_s) >= 0
        assert 0 < point.low <= point.examples_per_second <= point.high
        assert point.examples_per_second <= point.linear * (1 + 1e-9) or settings.get("backup_workers")
        assert point.memory_bytes > 0
    assert repr(found).count("\n") >= len(found.points)
    assert list(found.frame()["examples_per_second"]) == [point.examples_per_second for point in found.points]
    assert found._repr_html_().count("<tr>") == len(found.points) + 1


def test_one_task_alone_is_the_measure() -> None:
    found = made(tasks=[8, 1, 2], strategy="allreduce")
    assert [point.tasks for point in found.points] == [1, 2, 8]
    assert found.at(1).efficiency == found.at(1).marginal == 1.0
    with pytest.raises(InvalidInput, match="`tasks` must be one of 1, 2, 8, got 3"):
        found.at(3)


def test_a_network_that_costs_nothing_leaves_stragglers_alone() -> None:
    found = made(link=FAST, straggling=1e-9, device="CPU", per_device=32)
    assert [round(point.efficiency, 6) for point in found.points] == [1.0] * 10
    assert found.pays_until == 512 and found.why == "It pays up to 512 tasks, the most that were requested."


def test_where_it_stops_paying() -> None:
    found = made(network="1gbit", device="A100", per_device=8, tasks=[1, 2, 4])
    assert found.pays_until == 1
    assert found.why.startswith("From 1 to 2 tasks it does not pay: the exchange takes too long; ")
    assert made(network="1gbit", device="A100", per_device=8, tasks=[1, 2, 4], threshold=0.0).pays_until < 4


def test_settings_that_were_left_open_are_filled_in() -> None:
    machines = Machines(tasks=4, per_machine=2, batch_size=512, microbatches=4, replicas=2)
    settings = made(machines, strategy="pipeline").settings
    assert (settings.per_device, settings.microbatches, settings.stages) == (128, 4, 2)
    assert settings.devices_per_machine == 2 and len(settings.tasks) == 10
    assert made(machines, batch_size=256).settings.per_device == 0


def test_a_calibration_is_what_compute_takes() -> None:
    seconds = {f"l{index}": [0.001, 0.002, 0.0005] for index in range(8)}
    device = Device(name="/job:worker/task:0/device:CPU:0", flops_per_s=1e9)
    calibration = Calibration(batch_size=8, devices=[device], link=LINK, layer_seconds=seconds, overhead_s=0.01)
    found = made(None, calibration, per_device=16, tasks=[1, 2])
    assert found.source == "calibration"
    assert found.at(1).parts.compute_s == pytest.approx(16 / 8 * 8 * 0.003 + 0.01)
    assert found.at(1).parts.update_s == pytest.approx(8 * 0.0005)
    assert found.at(2).parts.exposed_s == pytest.approx(ring_s(8 * 4e5, 2, LINK))


def test_all_reduce_by_its_formulas() -> None:
    size = 1e8
    assert ring_s(size, 4, LINK) == pytest.approx(2 * 3 / 4 * size / 1e9 + 6e-5)
    assert tree_s(size, 8, LINK) == pytest.approx(2 * size / 1e9 + 6e-5)
    apart = Fabric(FAST, LINK, 4, "")
    assert allreduce_s(size, 32, apart, "hierarchical") == pytest.approx(ring_s(size, 8, LINK))
    assert allreduce_s(size, 4, apart, "auto") == pytest.approx(0.0, abs=1e-9)
    assert allreduce_s(size, 32, apart, "ring") > allreduce_s(size, 32, apart, "hierarchical")
    assert allreduce_s(size, 1, apart, "tree") == 0.0


def test_what_comes_early_is_hidden_and_the_last_bytes_are_not() -> None:
    fabric = Fabric(FAST, Link(bytes_per_s=1e9, latency_s=0.0), 1, "")
    sizes = np.array([1e6, 1e8])  # the last layer's are ready first
    ready = np.array([1.0, 0.5])
    found = overlapped(sizes, ready, 2, fabric, "ring")
    assert found.exposed_s == pytest.approx(0.001)
    assert found.hidden_s == pytest.approx(0.1)
    late = overlapped(sizes[::-1], ready, 2, fabric, "ring")
    assert late.exposed_s == pytest.approx(0.1)
    assert overlapped(sizes, ready, 2, fabric, "ring", overlaps=False).hidden_s == 0.0
    assert overlapped(sizes, ready, 2, fabric, "ring", overlaps=False).exposed_s == pytest.approx(0.101)


def test_asynchronous_workers_do_as_they_like_until_the_server_is_busy() -> None:
    alone = servers_law.asynchronous(0.1, 1e6, 1, 1, LINK, update_s=0.002)
    assert 1 / alone.steps_per_s == pytest.approx(0.1 + 2 * 1e6 / 1e9 + 2e-5 + 0.002)
    many = servers_law.asynchronous(0.1, 1e6, 5000, 1, LINK, update_s=0.002)
    assert many.steps_per_s * 5000 == pytest.approx(1 / 0.002, rel=0.02)
    two = servers_law.asynchronous(0.1, 1e6, 5000, 2, LINK, update_s=0.002)
    assert two.steps_per_s == pytest.approx(2 * many.steps_per_s, rel=0.02)
    assert made(strategy="ps", tasks=[4]).points[0].staleness == 3


@pytest.mark.parametrize(("count", "rank"), [(2, 2), (8, 8), (8, 6), (64, 64), (64, 60)])
def test_order_statistics_against_drawing_them(count: int, rank: int) -> None:
    variation = 0.3
    spread = math.sqrt(math.log1p(variation**2))
    drawn = np.random.default_rng(1).lognormal(-(spread**2) / 2, spread, (20_000, count))
    assert order_statistics.expected(rank, count, variation) == pytest.approx(
        np.sort(drawn)[:, rank - 1].mean(), rel=0.02
    )
    assert order_statistics.slowest(1, variation) == order_statistics.slowest(count, 0.0) == 1.0


def test_backup_workers_pay_where_steps_vary_much() -> None:
    settings: dict[str, Any] = {"strategy": "ps", "sync": True, "tasks": [20], "link": FAST}
    (without,) = made(**settings, straggling=1.0).points
    (with_one,) = made(**settings, straggling=1.0, backup_workers=1).points
    assert with_one.examples_per_second > without.examples_per_second
    assert with_one.dropped == pytest.approx(1 / 20)
    (steady,) = made(**settings, straggling=1e-6).points
    (wasted,) = made(**settings, straggling=1e-6, backup_workers=1).points
    assert wasted.examples_per_second < steady.examples_per_second


@pytest.mark.parametrize("takes_turns", [False, True])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_pipeline_is_what_its_prediction_says(stages: int, takes_turns: bool) -> None:
    graph, batch, rate = msgspec.structs.replace(chain(6), takes_turns=takes_turns), 64, 1e10
    work = workload.assumed(graph, rate, on_cpu=False)
    staged = Staged(Layered(graph, work), stages, 8)
    devices = [Device(name=f"/job:worker/task:{number}/device:GPU:0", flops_per_s=rate) for number in range(stages)]
    predicted = predict(graph, staged.placement, devices, batch_size=batch, microbatches=8, link=LINK)
    found = staged.step(batch, 1, Fabric(LINK, LINK, 1, ""))
    assert found.step_s == pytest.approx(predicted.step_seconds, rel=1e-9)
    assert found.memory_bytes == max(load.memory_bytes for load in predicted.devices) or stages > 1


def test_a_deep_pipeline_that_is_not_played_through() -> None:
    found = made(strategy="pipeline", replicas=1, tasks=[1, 8, 9], microbatches=256, per_device=4096)
    assert found.at(8).efficiency > 0.5
    assert found.at(9).problem == "9 stages are more than the model has layers"


def test_what_would_not_work() -> None:
    found = made(Machines(memory_bytes=1000), batch_size=4, tasks=[2, 8])
    assert "of memory, but has 1000 B" in found.at(2).problem
    assert found.at(8).problem == "4 examples in a step are fewer than 8 tasks"
    assert found.pays_until == 0
    found = made(strategy="pipeline", stages=4, tasks=[4, 6])
    assert (found.at(4).problem, found.at(6).problem) == ("", "6 tasks are not a whole number of copies of 4 stages")
    found = made(strategy="ps", sync=True, backup_workers=2, tasks=[2, 4])
    assert found.at(2).problem == "2 backup workers among 2 workers leave none to wait for"


def test_input_that_is_too_slow_is_what_a_step_takes() -> None:
    (point,) = made(input_examples_per_s=10.0, per_device=100, tasks=[4], device="A100").points
    assert point.limit == "input" and point.examples_per_second == pytest.approx(40.0)


@pytest.mark.parametrize(
    ("settings", "field", "message"),
    [
        ({"device": "B9"}, "device", "`device` must be one of K80, "),
        ({"device": "P100", "precision": "bf16"}, "precision", "`precision` must be one of fp32, fp16 for P100"),
        ({"network": "nvlink3"}, "network", "`network` must be one of 1gbit, "),
        ({"local": "1gbit"}, "local", "`local` must be one of memory, "),
        ({"tasks": [0]}, "tasks", "`tasks` must be at most 64 integers from 1"),
        ({"strategy": "magic"}, "strategy", "`strategy` must be one of allreduce, ps, mirrored, pipeline"),
        ({"per_device": 4, "batch_size": 4}, "per_device", "Only one of `batch_size`"),
        ({"backup_workers": 1}, "backup_workers", '`backup_workers` must be 0 unless strategy="ps" and sync=True'),
        ({"utilization": 1.5}, "utilization", "`utilization` must be a number from 0 to 1, got 1.5"),
        ({"input_examples_per_s": math.nan}, "input_examples_per_s", "`input_examples_per_s` must be a number from 0"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        made(**settings)
    assert caught.value.field == field and str(caught.value).startswith(message)
