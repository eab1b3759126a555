"""In-graph training and pinned devices on a real cluster whose machine seems to have two GPUs.

Only NVIDIA's library is a stand-in, which the cluster process finds on its path; TensorFlow sees no GPU.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import cloudpickle
import numpy as np
import psutil
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.events import Note
from jupyter_dtf.schema.run import TaskState

from ..patience import left_s

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])


NVML = """
from types import SimpleNamespace

class NVMLError(Exception): ...

nvmlInit = nvmlShutdown = lambda: None
nvmlDeviceGetCount = lambda: 2
nvmlDeviceGetHandleByIndex = lambda index: index
nvmlDeviceGetMemoryInfo = lambda handle: SimpleNamespace(total=16 << 30, used=0)
nvmlDeviceGetName = lambda handle: "L4"
nvmlDeviceGetUUID = lambda handle: f"GPU-{handle}"
nvmlDeviceGetUtilizationRates = lambda handle: SimpleNamespace(gpu=0)
"""


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dtf.Cluster]:
    library = tmp_path_factory.mktemp("nvml")
    (library / "pynvml.py").write_text(NVML)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(library), os.environ.get("PYTHONPATH", "")])))
        made = dtf.Cluster(jobs={"chief": 1, "worker": 1, "ps": 1}, name="replicas")
    with made:
        yield made
    session().close()


def data() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return (x[:300] / 16).astype("float32"), y[:300]


def network() -> Any:
    import keras

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss, metrics=["accuracy"])
    return model


def notes(run: dtf.Run) -> dict[str, str]:
    return {event.title: event.text for _seq, event in session().hub.events(run.id) if isinstance(event, Note)}


def until_it_trains(run: dtf.Run) -> None:
    info = run.wait_for(lambda info: info.state.is_final or "loss" in info.latest, left_s())
    assert not info.state.is_final, info


# -- replicas --------------------------------------------------------------------------------------------------------


def test_one_client_trains_on_the_devices_of_all_tasks(cluster: dtf.Cluster) -> None:
    x, y = data()
    model, alone = network(), network()
    run = cluster.fit(
        model, x, y, batch_size=64, epochs=2, shuffle=False, validation_data=(x, y), strategy=dtf.InGraph()
    )
    history = alone.fit(x, y, batch_size=64, epochs=2, shuffle=False, validation_data=(x, y), verbose=0).history
    for ours, theirs in zip(model.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-6)
    for metric, values in history.items():
        np.testing.assert_allclose(run.history[metric], values, rtol=1e-4, err_msg=metric)
    assert run.info.strategy == "mirrored"
    assert [task.task for task in run.info.tasks] == ["chief:0", "worker:0"]
    assert {task.state for task in run.info.tasks} == {TaskState.SUCCEEDED}
    assert notes(run)["Replicas: 2"].count("CPU:0") == 2
    assert set(run.metrics["task"][run.metrics["metric"] == "loss"]) == {"chief:0"}


def test_devices_that_are_not_there_are_named(cluster: dtf.Cluster) -> None:
    strategy = dtf.InGraph(devices=("/job:worker/task:7/device:CPU:0",))
    with pytest.raises(dtf.InvalidInput, match=r"`devices` must belong to tasks of the run \(chief:0, worker:0"):
        cluster.fit(network(), *data(), strategy=strategy)


def test_what_fails_in_the_client_reaches_the_notebook(cluster: dtf.Cluster) -> None:
    def data_fn(ctx: Any) -> Any:
        raise KeyError("no such file")

    with pytest.raises(dtf.RunFailed, match="no such file") as raised:
        cluster.fit(network(), data_fn, strategy="mirrored")
    assert raised.value.task == "chief:0"
    assert "in data_fn" in raised.value.traceback


def test_a_run_stops_when_told_to_and_keeps_what_it_has_learnt(cluster: dtf.Cluster) -> None:
    model = network()
    before = model.get_weights()
    run = cluster.fit(model, *data(), epochs=100_000, strategy="mirrored", wait=False)
    until_it_trains(run)
    run.stop()
    run.finish()
    assert run.status == "stopped"
    assert not np.array_equal(model.get_weights()[0], before[0])


def test_a_replica_that_dies_ends_the_run(cluster: dtf.Cluster) -> None:
    run = cluster.fit(network(), *data(), epochs=100_000, strategy="mirrored", restart=False, wait=False)
    until_it_trains(run)
    client, server = (psutil.Process(task.pid) for task in run.info.tasks)
    server.kill()
    with pytest.raises(dtf.RunFailed, match="worker:0 died"):
        run.result(left_s())
    assert not psutil.pid_exists(client.pid) or client.status() == psutil.STATUS_ZOMBIE


# -- devices -------------------------------------------------------------------------------------------------------


def visible(args: Any, ctx: Any) -> tuple[str, str]:
    import os

    return os.environ["CUDA_VISIBLE_DEVICES"], os.environ["CUDA_DEVICE_ORDER"]


def test_gpus_are_divided_and_seen_by_their_tasks_alone(cluster: dtf.Cluster) -> None:
    run = cluster.run(visible)
    assert run.result() == [("GPU-0", "PCI_BUS_ID"), ("GPU-1", "PCI_BUS_ID"), ("", "PCI_BUS_ID")]
    assert "TensorFlow does not see all GPUs" in notes(run)
    assert [device.removeprefix("/job:") for device in cluster.devices] == [
        "chief/task:0/device:CPU:0",
        "chief/task:0/device:GPU:0",
        "worker/task:0/device:CPU:0",
        "worker/task:0/device:GPU:0",
        "ps/task:0/device:CPU:0",
    ]


def test_a_run_may_share_them_or_do_without(cluster: dtf.Cluster) -> None:
    shared = cluster.run(visible, jobs={"worker": 4}, gpu_memory=0.5).result()
    assert [gpu for gpu, _ in shared] == ["GPU-0", "GPU-1", "GPU-0", "GPU-1"]
    assert [gpu for gpu, _ in cluster.run(visible, gpus_per_task=0).result()] == ["", "", ""]
    crowded = cluster.run(visible, jobs={"worker": 3})
    assert [gpu for gpu, _ in crowded.result()] == ["", "", ""]
    assert "it has 2 GPUs: set gpu_memory to let several tasks share one" in notes(crowded)["More tasks than GPUs"]


def test_what_is_not_there_is_refused_before_anything_starts(cluster: dtf.Cluster) -> None:
    before = len(cluster.runs)
    with pytest.raises(dtf.Unavailable, match=r"3 GPUs per task, but host \S+ has 2 GPUs for 2 tasks"):
        cluster.run(visible, gpus_per_task=3)
    with pytest.raises(
        dtf.Unavailable, match=r"1 GPU per task, 15 GiB of each, but host \S+ has 2 GPUs \(16 GiB, 16 GiB\)"
    ):
        cluster.fit(network(), *data(), jobs={"worker": 3}, gpu_memory=15 << 30)
    with pytest.raises(dtf.InvalidInput, match="`gpu_memory` must be an integer number of bytes"):
        cluster.run(visible, gpu_memory="8GB")  # type: ignore[arg-type]
    assert len(cluster.runs) == before
