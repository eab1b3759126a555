from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from jupyter_dtf.backend.planning.check_design import as_drawn, check, place, request_of
from jupyter_dtf.backend.planning.design_problems import Looked, of_training
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.api import ClusterInfo, ClusterState, TaskLocation
from jupyter_dtf.schema.design import ClusterDesign, Design, ModelDesign, RunSettings
from jupyter_dtf.schema.graph import Edge, Layer, LayerGraph, Refusal
from jupyter_dtf.schema.hosts import HostDesign, TaskPlace
from jupyter_dtf.schema.machines import GpuInfo, HostInfo
from jupyter_dtf.schema.placement import Placement
from tests.python.schema.any_design import designs as any_designs

GIB = 1 << 30
FULL = (Path(__file__).parents[3] / "designs" / "full.dtf").read_text(encoding="utf-8")


def cpu(index: int, job: str = "worker") -> str:
    return f"/job:{job}/task:{index}/device:CPU:0"


def problems(design: Design, expected_hosts: list[HostDesign] | None = None) -> list[tuple[str, str, str]]:
    return [(problem.level, problem.field, problem.message) for problem in check(design, expected_hosts or []).problems]


def changed(path: str, value: Any) -> Design:
    """Return the full design with one field changed. ``path`` names the field as in a problem."""
    design = Design.parse(FULL)
    *steps, last = path.replace("[", ".[").split(".")
    target: Any = design
    for step in steps:
        target = _step(target, step)
    if last.startswith("["):
        target[int(last[1:-1])] = value
    elif isinstance(target, dict):
        target[last] = value
    else:
        setattr(target, last, value)
    return design


def _step(target: Any, step: str) -> Any:
    if step.startswith("["):
        return target[int(step[1:-1])]
    return target[step] if isinstance(target, dict) else getattr(target, step)


def test_a_sound_design_is_reported() -> None:
    report = check(Design.parse(FULL))
    assert report.problems == []
    assert report.cluster_spec == {"worker": ["localhost:0", "localhost:0"], "ps": ["localhost:0"]}
    assert json.loads(report.tf_config["ps:0"])["task"] == {"type": "ps", "index": 0}
    assert report.devices == {
        "worker:0": "/job:worker/task:0/device:GPU:0",
        "worker:1": "/job:worker/task:1/device:GPU:0",
        "ps:0": "/job:ps/task:0/device:CPU:0",
    }
    assert report.prediction is not None and report.prediction.calibrated
    limits = {load.device: load.memory_limit_bytes for load in report.prediction.devices}
    assert limits == {"/job:worker/task:0/device:GPU:0": 20 * GIB, "/job:worker/task:1/device:GPU:0": 24 * GIB}


def test_a_new_design_is_sound() -> None:
    report = check(Design())
    assert report.problems == [] and report.prediction is None
    assert report.devices == {"worker:0": cpu(0), "worker:1": cpu(1)}


def test_a_refusal_without_a_field_is_of_no_split() -> None:
    """In a hand-written file, a layer may have no name and a refusal no field."""
    refusals = [Refusal(field=field, message="no") for field in ("", "placement.splits.", "placement.splits.other")]
    design = Design(model=ModelDesign(graph=LayerGraph(model="", layers=[], edges=[], refusals=refusals)))
    design.placement.splits = {"": ["/job:worker/task:0/device:CPU:0"]}
    told = [problem.field for problem in of_training(Looked(design))]
    assert told == ["placement.splits."]


@given(any_designs)
@settings(derandomize=True, deadline=None, max_examples=100)
def test_any_design_is_reported(design: Design) -> None:
    report = check(design)
    msgspec.json.encode(report)
    assert all(problem.field and problem.message for problem in report.problems)
    try:
        placed = place(design)
    except InvalidInput:
        return
    assert check(msgspec.structs.replace(design, placement=placed)).prediction is not None


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("cluster.name", "Lab 1", "A name must have 1 to 64 lower-case letters"),
        ("cluster.jobs.worker", 0, "The number of tasks of a job must be an integer"),
        (
            "cluster.tasks[1].host",
            "node-c",
            "The host of worker:1 must be one of the design's hosts (node-a, node-b), got",
        ),
        ("cluster.tasks[1].device", "GPU:1", "The host node-b has GPU:0 to GPU:0, but the task is placed on GPU:1"),
        (
            "cluster.tasks[0].memory_bytes",
            25 * GIB,
            "A memory cap must be <= 25769803776, the memory of GPU:1 of node-a",
        ),
        ("cluster.hosts[1].name", "node-a", "Host names must be unique, got 'node-a' twice"),
        ("model.graph.layers[1].id", "encoder/dense", "`id` must be unique and not empty, got 'encoder/dense'"),
        ("model.graph.layers[1].flops", -1, "`flops` must be from 0 to"),
        ("model.graph.edges[0].target", "encoder", "`target` must be the id of a layer, got 'encoder'"),
        ("model.graph.edges[0].bytes", -1, "`bytes` must be from 0 to"),
        (
            "placement.devices.encoder/dense",
            cpu(2),
            "Layers must be on one of the tasks worker:0, worker:1, got '/job:worker/",
        ),
        (
            "placement.devices.encoder/dense",
            cpu(0, "ps"),
            "Layers must be on one of the tasks worker:0, worker:1, got '/job:ps/",
        ),
        (
            "placement.devices.encoder/dense",
            "GPU:0",
            "A device must be written as in /job:worker/task:1/device:CPU:0, got 'GPU:0'",
        ),
        (
            "placement.devices.encoder/dense",
            "/job:worker/task:0/device:GPU:1",
            "The device must be one of worker:0's, /job:worker/task:0/device:CPU:0, /job:worker/task:0/device:GPU:0",
        ),
        (
            "placement.devices.encoder/dense_9",
            cpu(0),
            "A placed layer must be a layer of the model, got 'encoder/dense_9'",
        ),
        ("placement.splits.encoder/dense_1", [cpu(0)], "A layer must be split over at least two different devices"),
        (
            "placement.splits.encoder/dense_1",
            [cpu(0), cpu(0)],
            "A layer must be split over at least two different devices",
        ),
        (
            "placement.splits.encoder/dense_1",
            [cpu(0), cpu(7)],
            "Layers must be on one of the tasks worker:0, worker:1, got",
        ),
        ("placement.splits.encoder", [cpu(0), cpu(1)], "A split layer must be a layer of the model, got 'encoder'"),
        ("placement.splits.logits", [cpu(0), cpu(1)], "A layer must be either placed or split, got both for 'logits'"),
        ("run.batch_size", 0, "`batch_size` must be an integer from 1 to 9007199254740992, got 0"),
        (
            "run.replicas",
            3,
            "`replicas` must be from 1 to 2, the smaller of the batch size and the number of tasks that compute, got 3",
        ),
        ("run.microbatches", 257, "`microbatches` must be from 1 to 256, and at most the 256 examples"),
        ("run.epochs", 0, "`epochs` must be an integer >= 1, got 0"),
    ],
)
def test_an_error_is_at_its_field(path: str, value: Any, message: str) -> None:
    found = problems(changed(path, value))
    if not message:
        path, message = (
            "placement.splits.encoder/dense_1",
            "A layer must be either placed or split, got both for 'encoder/dense_1'",
        )
    assert any(level == "error" and field == path and text.startswith(message) for level, field, text in found), found


def test_a_cycle_is_found() -> None:
    design = Design.parse(FULL)
    assert design.model is not None
    design.model.graph.edges.append(Edge(source="logits", target="encoder/dense", bytes=4))
    assert ("error", "model.graph.edges") in [each[:2] for each in problems(design)]
    assert check(design).prediction is None


def test_a_layer_that_has_no_columns_is_not_split() -> None:
    design = changed("model.graph.layers[1].kind", "Conv2D")
    assert problems(design)[0] == (
        "error",
        "placement.splits.encoder/dense_1",
        "A split layer must be of type Dense or Embedding, got 'Conv2D'",
    )


def test_tasks_that_share_a_gpu() -> None:
    design = Design.parse(FULL)
    design.cluster.tasks[1].host, design.cluster.tasks[1].device = "node-a", "GPU:1"
    assert problems(design) == [
        (
            "warning",
            "cluster.tasks[1].memory_bytes",
            "worker:0, worker:1 share GPU:1 of node-a: without a memory limit, worker:1 may take all of its memory",
        )
    ]
    report = check(design)
    assert report.prediction is not None
    assert [load.memory_limit_bytes for load in report.prediction.devices] == [20 * GIB, 4 * GIB]
    design.cluster.tasks[1].memory_bytes = 5 * GIB
    message = (
        f"The memory limits of worker:0, worker:1 must add up to at most the {24 * GIB} bytes of GPU:1 of node-a, "
        f"got {25 * GIB}"
    )
    assert problems(design) == [
        ("error", "cluster.tasks[0].memory_bytes", message),
        ("error", "cluster.tasks[1].memory_bytes", message),
    ]


def test_warnings() -> None:
    design = Design.parse(FULL)
    design.cluster.jobs["worker"] = 3
    design.placement.pinned.append("encoder")
    assert design.calibration is not None
    design.calibration = msgspec.structs.replace(design.calibration, layer_seconds={})
    found = problems(design)
    assert found == [
        ("warning", "placement.pinned[1]", "encoder is pinned but has no place"),
        (
            "warning",
            "calibration",
            "The calibration was measured with another model: it lacks encoder/dense, encoder/dense_1, logits",
        ),
        ("warning", "cluster.jobs.worker", found[-1][2]),
    ]
    assert re.fullmatch(r"worker:2 has no layer: .*", found[-1][2])
    crowded = Design(cluster=ClusterDesign(jobs={"worker": 3}, hosts=[HostDesign(name="a", cpus=2)]))
    assert problems(crowded) == [
        ("warning", "cluster.jobs", "3 tasks with 3 threads share the 2 threads of host a"),
    ]


def chain(*ids: str, megabytes: int = 1) -> ModelDesign:
    size = megabytes << 20
    layers = [Layer(id=id_, kind="Conv2D", flops=10**6, parameters=size // 4, parameter_bytes=size) for id_ in ids]
    edges = [Edge(source=a, target=b, bytes=4) for a, b in itertools.pairwise(ids)]
    return ModelDesign(graph=LayerGraph(model="m", layers=layers, edges=edges))


def test_a_layer_without_a_place_and_what_does_not_fit_are_problems_too() -> None:
    hosts = [HostDesign(name="a", memory_bytes=1 << 20), HostDesign(name="b")]
    design = Design(
        cluster=ClusterDesign(hosts=hosts),
        model=chain("x", "y", "z"),
        placement=Placement(devices={"x": cpu(0), "y": cpu(0)}),
    )
    found = problems(design)
    assert ("error", "placement.devices", "Each layer must have a device. Without one: z") in found
    assert any(f"{cpu(0)}: needs 2.0 MiB of memory, but has 1.0 MiB" in text for _, _, text in found)


def test_a_container_is_placed_as_a_whole() -> None:
    design = Design(
        model=chain("encoder/a", "encoder/b", "head"),
        placement=Placement(devices={"encoder": cpu(0), "encoder/b": cpu(1), "head": cpu(1)}),
    )
    report = check(design)
    assert report.problems == [] and report.prediction is not None
    assert [load.layers for load in report.prediction.devices] == [1, 2]


def test_a_layer_may_be_on_the_cpu_of_a_task_with_a_gpu() -> None:
    report = check(changed("placement.devices.logits", cpu(1)))
    assert report.problems == [] and report.prediction is not None
    assert [load.layers for load in report.prediction.devices] == [2, 1, 1]


def test_gpus_of_a_kind_that_are_not_known_are_believed() -> None:
    gpu = "/job:worker/task:0/device:GPU:0"
    design = Design(model=chain("a", "b"), placement=Placement(devices={"a": gpu, "b": cpu(1)}))
    assert [text for level, _, text in problems(design) if level == "error"] == []
    expected_hosts = [HostDesign(name="0", cpus=2)]
    (message,) = [text for level, _, text in problems(design, expected_hosts) if level == "error"]
    assert message == f"The device must be one of worker:0's, {cpu(0)}, got {gpu!r}"


class TestPlace:
    def test_pinned_layers_stay(self) -> None:
        design = Design(
            model=chain("a", "b", "c", "d"), placement=Placement(devices={"a": cpu(1), "b": cpu(0)}, pinned=["a"])
        )
        placed = place(design)
        assert placed.devices["a"] == cpu(1) and placed.pinned == ["a"]
        assert set(placed.devices) == {"a", "b", "c", "d"}

    def test_a_split_that_is_pinned_stays(self) -> None:
        design = Design.parse(FULL)
        split = design.placement.splits
        assert place(design).splits == {}
        for pinned in ("encoder/dense_1", "encoder"):
            design.placement.pinned = [pinned]
            placed = place(design)
            assert placed.splits == split and "encoder/dense_1" in placed.pinned

    def test_replicas_leave_the_other_tasks_to_the_copies(self) -> None:
        design = Design(
            cluster=ClusterDesign(jobs={"worker": 4}),
            model=chain(*"abcdefgh"),
            run=RunSettings(batch_size=64, microbatches=8, replicas=2),
        )
        design.placement = place(design)
        assert set(design.placement.devices.values()) == {cpu(0), cpu(1)}
        report = check(design)
        assert report.problems == [] and report.prediction is not None
        assert [load.layers for load in report.prediction.devices] == [4, 4, 4, 4]

    def test_refused(self) -> None:
        with pytest.raises(InvalidInput, match="A design needs a model before its layers can be placed"):
            place(Design())
        with pytest.raises(InvalidInput, match="`microbatches` must be from 1 to") as refused:
            place(Design(model=chain("a"), run=RunSettings(microbatches=0)))
        assert refused.value.field == "run.microbatches"


class TestCluster:
    def test_the_request_that_starts_it(self) -> None:
        design = Design.parse(FULL)
        request = request_of(design, keep=True)
        assert (request.name, request.jobs, request.keep) == ("lab", {"worker": 2, "ps": 1}, True)
        assert (request.hosts, request.tasks) == (design.cluster.hosts, design.cluster.tasks)
        assert request_of(design, name="other").name == "other"
        with pytest.raises(InvalidInput, match="got 'node-c'") as refused:
            request_of(changed("cluster.tasks[1].host", "node-c"))
        assert refused.value.field == "cluster.tasks[1].host"

    def test_what_runs_as_it_would_be_drawn(self) -> None:
        gpu = GpuInfo(id="GPU-a", index=0, name="L4", memory_bytes=24 * GIB, memory_used_bytes=0, utilization=0.0)
        info = ClusterInfo(
            name="lab",
            kind="local",
            state=ClusterState.RUNNING,
            jobs={"worker": 1, "ps": 1},
            hosts=[
                HostInfo(name="0", address="tls://a:1", threads=8, memory_bytes=32 * GIB, gpus=[gpu], drawn="node-a"),
                HostInfo(name="1", address="tls://a:2", threads=8, memory_bytes=32 * GIB),
            ],
            tasks=[
                TaskLocation(task="worker:0", host="0", gpus=[0], memory_bytes=GIB),
                TaskLocation(task="ps:0", host="1"),
            ],
        )
        drawn = as_drawn(info)
        assert drawn == ClusterDesign(
            name="lab",
            jobs={"worker": 1, "ps": 1},
            hosts=[
                HostDesign(name="node-a", cpus=8, memory_bytes=32 * GIB, gpus=[24 * GIB]),
                HostDesign(name="1", cpus=8, memory_bytes=32 * GIB),
            ],
            tasks=[
                TaskPlace(job="worker", index=0, host="node-a", device="GPU:0", memory_bytes=GIB),
                TaskPlace(job="ps", index=0, host="1"),
            ],
        )
        assert check(Design(cluster=drawn)).problems == []


def test_a_design_of_ten_thousand_layers_is_checked_while_a_person_draws() -> None:
    ids = [f"block_{number // 10}/dense_{number % 10}" for number in range(10_000)]
    design = Design(model=chain(*ids), run=RunSettings(microbatches=8))
    design.placement = place(design)
    report = check(Design.parse(design.text()))
    assert report.prediction is not None and report.problems == []
