"""Predictions from simulated steps, compared with formulas and with properties that hold for any placement."""

from __future__ import annotations

import itertools
import random

import msgspec
import pytest

from jupyter_dtf.backend.planning.prediction import predict
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.graph import Edge, Layer, LayerGraph
from jupyter_dtf.schema.placement import Calibration, Cut, Device, Link, Placement, Prediction

NO_TIME = Link(bytes_per_s=1e30, latency_s=0.0)
MIB = 2**20


def task(index: int) -> str:
    return f"/job:worker/task:{index}/device:CPU:0"


def tasks(count: int, memory_bytes: int = 0) -> list[Device]:
    return [Device(name=task(index), flops_per_s=1e6, memory_bytes=memory_bytes) for index in range(count)]


def chain(*flops: int, bytes_: int = 4, **fields: int) -> LayerGraph:
    layers = [Layer(id=f"l{index}", kind="Dense", flops=each, **fields) for index, each in enumerate(flops)]  # type: ignore[arg-type]
    edges = [Edge(source=before.id, target=after.id, bytes=bytes_) for before, after in itertools.pairwise(layers)]
    return LayerGraph(model="m", layers=layers, edges=edges)


def on(*indices: int) -> Placement:
    return Placement(devices={f"l{number}": task(index) for number, index in enumerate(indices)})


@pytest.mark.parametrize(("stages", "microbatches"), [(1, 1), (1, 4), (2, 1), (2, 8), (4, 8), (4, 32)])
def test_balanced_stages_fill_and_drain(stages: int, microbatches: int) -> None:
    """Forward and backward each take (microbatches + stages - 1) times as long as one stage for one microbatch."""
    graph = chain(*[1000] * stages)
    found = predict(graph, on(*range(stages)), tasks(stages), batch_size=32, microbatches=microbatches, link=NO_TIME)
    passes = microbatches + stages - 1
    assert found.step_seconds == pytest.approx(passes * 3 * 1000 * 32 / microbatches / 1e6)
    assert found.bubble == pytest.approx((stages - 1) / passes)
    assert len(found.timeline) == 2 * stages * microbatches
    assert [load.share for load in found.devices] == pytest.approx([1 / stages] * stages)


@pytest.mark.parametrize(("microbatches", "passes"), [(1, 2), (8, 9)])
def test_the_other_stage_does_not_wait_for_derivatives_of_weights(microbatches: int, passes: int) -> None:
    """These derivatives are half of a backward pass."""
    graph = chain(1000, 1000, gradient_bytes=1)
    found = predict(graph, on(0, 1), tasks(2), batch_size=32, microbatches=microbatches, link=NO_TIME)
    forward_s = 32 / microbatches * 1e-3
    assert found.step_seconds == pytest.approx(passes * 3 * forward_s - forward_s + 1e-6)


def in_turn(graph: LayerGraph) -> LayerGraph:
    return msgspec.structs.replace(graph, takes_turns=True)


@pytest.mark.parametrize(("stages", "microbatches"), [(1, 4), (2, 2), (2, 8), (3, 8), (4, 8), (4, 32)])
def test_of_stages_that_take_turns_each_waits_only_until_the_first_microbatch_comes(
    stages: int, microbatches: int
) -> None:
    """While the stages wait at the end, they compute the derivatives of weights, a third of all work."""
    graph = chain(*[1000] * stages, gradient_bytes=1)
    found = predict(
        in_turn(graph), on(*range(stages)), tasks(stages), batch_size=32, microbatches=microbatches, link=NO_TIME
    )
    forward_s = 32 / microbatches * 1e-3
    assert found.step_seconds == pytest.approx((3 * microbatches + stages - 1) * forward_s + 1e-6)


def test_transfers_do_not_hold_up_stages_that_take_turns() -> None:
    """A microbatch is in transit for twice the latency, while the first stage processes those that it is ahead."""
    link = Link(bytes_per_s=1e30, latency_s=2e-3)
    graph = in_turn(chain(1000, 1000, gradient_bytes=1))
    found = predict(graph, on(0, 1), tasks(2), batch_size=32, microbatches=8, link=link)
    assert found.step_seconds == pytest.approx((3 * 8 + 1) * 4e-3 + 2e-3 + 2e-3 + 1e-6)


def test_stages_that_take_turns_hold_as_many_microbatches_as_they_are_ahead() -> None:
    graph = chain(1, 1, 1, parameter_bytes=1000, gradient_bytes=1000, slot_bytes=2000, activation_bytes=10, bytes_=5)
    found = predict(in_turn(graph), on(0, 1, 2), tasks(3), batch_size=64, microbatches=16)
    filled = predict(graph, on(0, 1, 2), tasks(3), batch_size=64, microbatches=16)
    assert [load.memory_bytes for load in found.devices] == [
        4000 + held * 4 * (10 + received) for held, received in zip((5, 4, 3), (0, 5, 5), strict=True)
    ]
    assert [load.filled_bytes for load in found.devices] == [load.memory_bytes for load in filled.devices]
    assert {load.filled_bytes for load in filled.devices} == {0}
    assert "would need" in repr(found)
    few = predict(in_turn(graph), on(0, 1, 2), tasks(3), batch_size=64, microbatches=2)
    assert [load.memory_bytes for load in few.devices] == [load.filled_bytes for load in few.devices]


def test_the_slowest_stage_sets_the_pace() -> None:
    found = predict(chain(1000, 3000), on(0, 1), tasks(2), batch_size=8, microbatches=8, link=NO_TIME)
    assert found.step_seconds == pytest.approx((1 + 8 * 3 + 8 * 6 + 2) / 1000)
    assert [load.busy_s for load in found.devices] == pytest.approx([0.024, 0.072])


def test_transfers_take_their_time_beside_computing() -> None:
    """A transfer of a microbatch, 1,000 bytes, takes 1 ms after 2 ms of latency: the fourth arrives after 4 + 2 ms."""
    link = Link(bytes_per_s=1e6, latency_s=2e-3)
    found = predict(chain(1, 500, bytes_=1000), on(0, 1), tasks(2), batch_size=4, microbatches=4, link=link)
    forward = [slot for slot in found.timeline if slot.phase == "forward" and slot.device == task(1)]
    assert [slot.start_s for slot in forward] == pytest.approx([0.003, 0.004, 0.005, 0.006], abs=5e-6)
    assert found.cuts == [Cut(source="l0", target="l1", source_device=task(0), target_device=task(1), bytes=1000)]
    assert [(load.sent_bytes, load.received_bytes) for load in found.devices] == [(4000, 4000)] * 2


@pytest.mark.parametrize(
    ("kind", "link", "copying_s"),
    [
        ("CPU", Link(bytes_per_s=1e9, latency_s=0.0), 0.5e-6),  # within a machine: half of the transfer by each side
        ("CPU", Link(bytes_per_s=4e9, latency_s=0.0), 0.125e-6),
        ("CPU", Link(bytes_per_s=1e6, latency_s=0.0), 0.5e-6),  # a slow network does not use the cores more
        ("GPU", Link(bytes_per_s=1e9, latency_s=0.0), 0.0),
    ],
)
def test_a_core_that_copies_does_not_compute(kind: str, link: Link, copying_s: float) -> None:
    """It copies the 1,000 bytes of each of two microbatches, in the forward and in the backward pass."""
    devices = [Device(name=f"/job:worker/task:{n}/device:{kind}:0", flops_per_s=1e6) for n in (0, 1)]
    placement = Placement(devices={f"l{n}": device.name for n, device in enumerate(devices)})
    found = predict(chain(1000, 1000, bytes_=1000), placement, devices, batch_size=2, microbatches=2, link=link)
    for load in found.devices:
        assert load.busy_s == pytest.approx(2 * 3 * 1e-3 + 2 * 2 * copying_s)


def test_layers_that_go_back_and_forth() -> None:
    """The first device starts the next microbatch while the second device processes its part of the previous one."""
    found = predict(chain(1000, 1000, 1000), on(0, 1, 0), tasks(2), batch_size=2, microbatches=2, link=NO_TIME)
    forward = [
        (slot.device[-14], slot.microbatch, round(slot.start_s * 1000))
        for slot in sorted(found.timeline, key=lambda slot: (slot.start_s, slot.device))
        if slot.phase == "forward"
    ]
    assert forward == [("0", 0, 0), ("0", 1, 1), ("1", 0, 1), ("0", 0, 2), ("1", 1, 2), ("0", 1, 3)]
    assert found.step_seconds == pytest.approx(0.004 + 0.008)


def test_a_skip_connection_is_sent_once_to_each_device() -> None:
    graph = chain(1, 1, 1)
    graph.edges.append(Edge(source="l0", target="l2", bytes=4))
    once = predict(graph, on(0, 1, 1), tasks(3))
    twice = predict(graph, on(0, 1, 2), tasks(3))
    assert [load.sent_bytes for load in once.devices] == [128, 128, 0]
    assert [load.sent_bytes for load in twice.devices] == [256, 256, 256]
    assert len(once.cuts) == 2 and len(twice.cuts) == 3


def test_columns_of_a_layer_on_two_devices() -> None:
    """The columns are joined on the first of the two devices, and sent on from there."""
    graph = chain(1000, 4000, 1000, parameter_bytes=MIB, bytes_=100)
    split = Placement(devices={"l0": task(0), "l2": task(0)}, splits={"l1": [task(1), task(0)]})
    found = predict(graph, split, tasks(2), batch_size=1, link=NO_TIME)
    assert found.step_seconds == pytest.approx(3 * (1000 + 2000 + 1000) / 1e6)
    assert [load.memory_bytes for load in found.devices] == [2 * MIB + MIB // 2 + 100, MIB // 2 + 100 + 50]
    assert [load.layers for load in found.devices] == [3, 1]
    cuts = [(cut.source, cut.target, cut.source_device, cut.bytes) for cut in found.cuts]
    assert sorted(cuts) == [("l0", "l1", task(0), 100), ("l1", "l1", task(0), 50), ("l1", "l2", task(1), 100)]


def test_memory_is_that_of_all_microbatches_with_what_is_received() -> None:
    graph = chain(1, 1, parameter_bytes=1000, gradient_bytes=1000, slot_bytes=2000, activation_bytes=10, bytes_=5)
    found = predict(graph, on(0, 1), tasks(2, memory_bytes=4350), batch_size=32, microbatches=8)
    assert [load.memory_bytes for load in found.devices] == [4000 + 320, 4000 + 320 + 160]
    assert [load.problem for load in found.devices] == ["", "needs 4.4 KiB of memory, but has 4.2 KiB"]
    assert [problem.message for problem in found.problems] == [f"{task(1)}: {found.devices[1].problem}"]


def test_replicas_have_devices_of_their_own_and_exchange_weights_and_gradients() -> None:
    graph = chain(1000, 1000, parameter_bytes=4000, gradient_bytes=3000, slot_bytes=6000, bytes_=4)
    link = Link(bytes_per_s=1e6, latency_s=0.0)
    one = predict(graph, on(0, 1), tasks(2), batch_size=16, microbatches=4, link=link)
    two = predict(graph, on(0, 1), tasks(4), batch_size=32, microbatches=4, replicas=2, link=link)
    assert two.step_seconds == pytest.approx(one.step_seconds + (4000 + 3000) / 1e6)
    assert [load.share for load in two.devices] == pytest.approx([0.25] * 4)
    assert {slot.device for slot in two.timeline} == {task(index) for index in range(4)}
    assert not two.problems
    first, _, copy, _ = two.devices
    assert (first.sent_bytes, first.received_bytes) == (64 + 4000, 64 + 3000)
    assert (copy.sent_bytes, copy.received_bytes) == (64 + 3000, 64 + 4000)
    assert (first.memory_bytes, copy.memory_bytes) == (13000, 7000)
    short = predict(graph, on(0, 1), tasks(3), batch_size=32, replicas=2)
    assert "got 2 replicas and no tasks at " in short.problems[0].message


def test_a_chief_is_the_first_task_of_replicas() -> None:
    chief = "/job:chief/task:0/device:CPU:0"
    devices = [*tasks(3), Device(name=chief, flops_per_s=1e6)]
    placement = Placement(devices={"l0": chief, "l1": task(0)})
    found = predict(chain(1000, 1000), placement, devices, batch_size=32, replicas=2)
    assert not found.problems
    assert {slot.device for slot in found.timeline if slot.start_s == 0} == {chief, task(1)}


def test_an_unfinished_placement() -> None:
    graph = chain(1000, 1000, 1000, parameters=1)
    found = predict(graph, Placement(devices={"l1": task(0), "x": task(0), "l2": "nowhere"}), tasks(1), batch_size=1)
    assert found.step_seconds == pytest.approx(0.003)
    assert [problem.message for problem in found.problems] == ["Each layer must have a device. Without one: l0, l2"]
    assert predict(graph, Placement(), tasks(1)).step_seconds == 0.0


def test_containers_and_what_follows_its_input() -> None:
    layers = [Layer(id=name, kind="Dense", flops=1000, parameters=1) for name in ("a/x", "a/y", "b/x")]
    layers.insert(2, Layer(id="drop", kind="Dropout", flops=1000))
    edges = [Edge(source=before.id, target=after.id, bytes=4) for before, after in itertools.pairwise(layers)]
    graph = LayerGraph(model="m", layers=layers, edges=edges)
    found = predict(graph, Placement(devices={"a": task(0), "b": task(1)}), tasks(2))
    assert [load.layers for load in found.devices] == [3, 1]
    assert not found.problems


def test_a_calibration_has_the_last_word() -> None:
    devices = [Device(name=task(0), flops_per_s=2e6), Device(name=task(1), flops_per_s=1e6)]
    seconds = {"l0": [0.1, 0.2, 0.01], "l1": [0.1, 0.3, 0.02]}
    calibration = Calibration(batch_size=4, devices=devices, link=NO_TIME, layer_seconds=seconds, overhead_s=0.5)
    found = predict(chain(1, 1), on(0, 1), tasks(2), batch_size=8, microbatches=1, calibration=calibration)
    assert found.calibrated
    first, second = (0.1 + 0.2) * 2, (0.1 + 0.3) * 2 * 2  # twice the examples; the second device takes twice as long
    assert found.step_seconds == pytest.approx(first + second + 0.01 + 0.5)


@pytest.mark.parametrize("seed", range(30))
def test_what_holds_for_any_placement(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(2, 30)
    layers = [Layer(id=f"l{index}", kind="Dense", flops=rng.randrange(1, 10**4)) for index in range(count)]
    edges = [
        Edge(source=f"l{source}", target=f"l{target}", bytes=rng.randrange(1, 100))
        for target in range(1, count)
        for source in rng.sample(range(target), min(target, rng.randrange(1, 3)))
    ]
    graph = LayerGraph(model="m", layers=layers, edges=edges)
    devices = [Device(name=task(index), flops_per_s=rng.choice([1e6, 3e6])) for index in range(rng.randrange(1, 5))]
    placement = Placement(
        devices={layer.id: rng.choice(devices).name for layer in layers[1:]},
        splits={"l0": [device.name for device in devices]} if len(devices) > 1 else {},
    )
    if len(devices) == 1:
        placement.devices["l0"] = task(0)
    microbatches = rng.choice([1, 2, 5])
    found = predict(graph, placement, devices, batch_size=10, microbatches=microbatches, link=Link())
    _check_timeline(found, microbatches)
    free = predict(graph, placement, devices, batch_size=10, microbatches=microbatches, link=NO_TIME)
    work = sum(load.busy_s * device.flops_per_s for load, device in zip(free.devices, devices, strict=True))
    assert work == pytest.approx(sum(layer.flops for layer in layers) * 3 * 10)
    assert found.step_seconds >= max(load.busy_s for load in found.devices)
    assert 0 <= found.bubble < 1
    assert sum(load.sent_bytes for load in found.devices) == sum(load.received_bytes for load in found.devices)


def _check_timeline(found: Prediction, microbatches: int) -> None:
    for load in found.devices:
        slots = [slot for slot in found.timeline if slot.device == load.device]
        for before, after in itertools.pairwise(slots):
            assert after.start_s >= before.start_s + before.duration_s - 1e-12
        phases = [slot.phase for slot in slots]
        assert phases == sorted(phases, key=("forward", "backward", "update").index)
        if slots:
            assert {slot.microbatch for slot in slots} == set(range(microbatches))


@pytest.mark.parametrize("numbers", [{"microbatches": 0}, {"microbatches": 17, "replicas": 2}, {"replicas": 0}])
def test_numbers_that_cannot_be(numbers: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match="must be from 1 to batch_size"):
        predict(chain(1), on(0), tasks(1), **numbers)  # type: ignore[arg-type]


def test_a_timeline_has_no_more_than_can_be_seen() -> None:
    """The model has ten thousand layers, each on a different device from the layer before."""
    count = 10_000
    graph = chain(*[1] * count)
    found = predict(graph, on(*[index % 2 for index in range(count)]), tasks(2), batch_size=8, microbatches=2)
    assert 100 < len(found.timeline) < 5000
    _check_timeline(found, 2)
