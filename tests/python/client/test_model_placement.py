"""Tests of ``dtf.place``, ``dtf.predict`` and ``dtf.calibrate`` on a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session
from jupyter_dtf.notebook import designing
from jupyter_dtf.schema.base import convert
from jupyter_dtf.schema.placement import Calibration, Placement

pytestmark = pytest.mark.module_directories

DEVICES = [f"/job:worker/task:{index}/device:CPU:0" for index in range(2)]


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    with dtf.Cluster(jobs={"worker": 2, "ps": 1}) as made:
        yield made
    session().close()


def network() -> Any:
    """Return a nested model with an embedding, a skip connection, batch normalisation and two outputs."""
    words = keras.Input((4,), dtype="int32")
    x = keras.layers.Flatten()(keras.layers.Embedding(10, 16, name="words")(words))
    inner = keras.Input((64,))
    block = keras.Model(
        inner, keras.layers.Dense(64, name="wide")(keras.layers.Dense(256, name="widest")(inner)), name="block"
    )
    x = keras.layers.Add(name="skip")([x, block(keras.layers.BatchNormalization(name="norm")(x))])
    outputs = [keras.layers.Dense(3, name="first")(x), keras.layers.Dense(1, name="second")(x)]
    model = keras.Model(words, outputs)
    model.compile(optimizer="adam", loss=["sparse_categorical_crossentropy", "mse"], metrics=[["accuracy"], []])
    return model


def tiny() -> Any:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, name="only")], name="tiny")
    model.compile(optimizer="sgd", loss="mse")
    return model


def test_layers_devices_and_links_are_measured(cluster: dtf.Cluster) -> None:
    model = network()
    before = model.get_weights()
    found = dtf.calibrate(model, cluster, batch_size=64, microbatches=4)
    graph = dtf.describe(model)
    assert set(found.layer_seconds) == {layer.id for layer in graph.layers}
    assert all(forward > 0 for forward, _, _ in found.layer_seconds.values())
    trained = [layer.id for layer in graph.layers if layer.gradient_bytes]
    assert all(backward > 0 and update > 0 for _, backward, update in map(found.layer_seconds.get, trained))  # type: ignore[misc]
    assert [device.name for device in found.devices] == DEVICES
    assert found.batch_size == 16
    assert 1e8 < found.devices[0].flops_per_s < 1e13
    assert 1e6 < found.link.bytes_per_s < 1e12 and 1e-6 < found.link.latency_s < 1
    assert 0 < found.overhead_s < 10
    assert all((a == b).all() for a, b in zip(before, model.get_weights(), strict=True))
    assert model.loss == ["sparse_categorical_crossentropy", "mse"]

    placed = dtf.place(model, cluster, microbatches=4, calibration=found)
    step = dtf.predict(model, placed, cluster, microbatches=4, calibration=found)
    assert step.calibrated and not step.problems
    layers = sum(4 * (forward + backward) + update for forward, backward, update in found.layer_seconds.values())
    speeds = [device.flops_per_s for device in found.devices]
    apart = max(speeds) / min(speeds)  # tasks on a busy machine differ in speed
    assert layers / 2 / apart < step.step_seconds - found.overhead_s < 3 * layers * apart + 1


def test_a_model_of_a_kernel_is_measured_for_the_designer(cluster: dtf.Cluster) -> None:
    answer = designing.calibrate("make", cluster.name, 8, 2, {"make": tiny}, call=True)
    found = convert(answer.data, Calibration)
    assert set(found.layer_seconds) == {"only"}
    assert found.batch_size == 4
    (run,) = [run for run in cluster.runs if run.info.name == "profile of tiny"]
    assert run.info.kind == "profile"


def test_devices_of_a_cluster_are_those_that_train(cluster: dtf.Cluster) -> None:
    model = network()
    placed = dtf.place(model, cluster, pinned={"words": DEVICES[1]})
    assert set(placed.devices.values()) <= set(DEVICES)
    assert placed.devices["words"] == DEVICES[1]
    step = dtf.predict(model, placed, cluster)
    assert [load.device for load in step.devices] == DEVICES
    assert all(load.memory_limit_bytes > 0 for load in step.devices)


def test_a_mapping_of_containers_is_a_placement(cluster: dtf.Cluster) -> None:
    model = network()
    places = dict.fromkeys(["words", "norm", "first", "second"], DEVICES[0]) | {"block": DEVICES[1]}
    step = dtf.predict(model, places, cluster)
    assert not step.problems
    assert [load.layers for load in step.devices] == [6, 2]
    assert {(cut.source, cut.target) for cut in step.cuts} == {("norm", "block/widest"), ("block/wide", "skip")}


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        (
            Placement(devices={"nothing": DEVICES[0]}),
            "The keys of `placement` must be layers of the model, got 'nothing'",
        ),
        (Placement(splits={"words": ["/job:ps/task:0/device:CPU:0"]}), "got '/job:ps/task:0/device:CPU:0'"),
    ],
)
def test_what_is_not_there_is_refused(cluster: dtf.Cluster, placement: Placement, message: str) -> None:
    with pytest.raises(dtf.InvalidInput, match=message):
        dtf.predict(network(), placement, cluster)


def test_a_model_that_is_not_compiled_is_refused(cluster: dtf.Cluster) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    with pytest.raises(dtf.InvalidInput, match="`model` must be compiled"):
        dtf.calibrate(model, cluster)
