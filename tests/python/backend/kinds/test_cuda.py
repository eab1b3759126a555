"""The kind ``cuda``, with a stand-in for NVIDIA's library, because test machines need not have a GPU."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.kinds import registry
from jupyter_dtf.backend.kinds.cuda import CudaKind
from jupyter_dtf.backend.planning.gpu_assignment import GpuRequest, share_of
from jupyter_dtf.backend.viewer import starting
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.schema.run import RunRequest
from jupyter_dtf.testing.kinds import KindContract

cloudpickle.register_pickle_by_value(sys.modules[__name__])

NVML = """
from types import SimpleNamespace

class NVMLError(Exception): ...

nvmlInit = nvmlShutdown = lambda: None
nvmlDeviceGetCount = lambda: 3
nvmlDeviceGetHandleByIndex = lambda index: index
nvmlDeviceGetHandleByUUID = lambda uuid: int(str(uuid, "ascii")[4] if isinstance(uuid, bytes) else uuid[4])
nvmlDeviceGetMemoryInfo = lambda handle: SimpleNamespace(total=16 << 30, used=0)
nvmlDeviceGetName = lambda handle: "L4"
nvmlDeviceGetUUID = lambda handle: f"GPU-{handle}a"
nvmlDeviceGetUtilizationRates = lambda handle: SimpleNamespace(gpu=0)
"""


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three fake GPUs of 16 GiB, in this process and in all processes that it starts."""
    library = tmp_path / "nvml"
    library.mkdir()
    (library / "pynvml.py").write_text(NVML)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    monkeypatch.syspath_prepend(str(library))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(library), os.environ.get("PYTHONPATH", "")])))
    yield
    sys.modules.pop("pynvml", None)


def options(**given: Any) -> dict[str, Any]:
    return registry.check_options(CudaKind(), given)


def surroundings(_args: Any, ctx: Any) -> tuple[str, int, bool, str]:
    """Return which GPUs a task sees, its memory limit, whether that memory grows, and the NCCL variables set."""
    import json
    from pathlib import Path

    spec = json.loads((Path(ctx._spec.task_dir) / "spec.json").read_text())
    switched_off = ",".join(name for name in os.environ if name.startswith("NCCL_"))
    return os.environ["CUDA_VISIBLE_DEVICES"], spec["gpu_memory_bytes"], spec.get("gpu_growth", True), switched_off


def in_trial(number: int) -> tuple[str, int]:
    """Return the first two of these values for a trial."""
    from jupyter_dtf.backend.task import context

    return surroundings(None, context.current())[:2]


@pytest.mark.usefixtures("gpus", "leave_session")
class TestCuda(KindContract):
    kind = "cuda"
    options = {"gpus": [2, "GPU-0"], "tasks_per_gpu": 2, "nvlink": False}

    def test_a_cluster_of_it_starts_scales_trains_and_stops(self, made: Any) -> None:
        super().test_a_cluster_of_it_starts_scales_trains_and_stops(made)
        share = share_of(16 << 30, 2)
        with dtf.Cluster(backend="cuda", jobs={"worker": 4}, **self.options) as cluster:
            assert cluster.main_devices == [f"/job:worker/task:{task}/device:GPU:0" for task in range(4)]
            told = cluster.run(surroundings).result()
            assert told == [(gpu, share, True, "NCCL_P2P_DISABLE") for gpu in ("GPU-2a", "GPU-0a") * 2]
            trials = dtf.launch(cluster, in_trial, {"number": [0]}, devices_per_trial=0.5)
            assert trials["result"].tolist() == [("GPU-2a", share // 2)]
            alone = cluster.run(surroundings, jobs={"worker": 1}, gpus_per_task=2).result()
            assert alone == [("GPU-2a,GPU-0a", 0, True, "NCCL_P2P_DISABLE")]
            with pytest.raises(dtf.Unavailable, match="46% of each, but host .* has 2 GPUs .* for 5 tasks"):
                cluster.run(surroundings, jobs={"worker": 5})


def test_a_machine_without_a_gpu_is_told_at_the_field(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    request = ClusterRequest(name="c", kind="cuda", jobs={"worker": 1})
    (problem,) = starting.preview(request).problems
    assert problem.field == "options.gpus"
    assert problem.message.startswith("Neither NVIDIA's management library (nvidia-ml-py) nor its driver reports a GPU")
    (help_,) = (field.help for field in CudaKind().fields() if field.name == "gpus")
    assert help_.endswith("Here: none.")


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        (
            {"gpus": "7"},
            "gpus",
            r"must be some of 0 \(GPU-0a\), 1 \(GPU-1a\), 2 \(GPU-2a\), each at most once, got '7'",
        ),
        ({"gpus": "1,GPU-1a"}, "gpus", "each at most once, got 'GPU-1a', which is listed twice"),
        ({"gpus": "GPU-"}, "gpus", "got 'GPU-'"),
        ({"gpu_memory_bytes": 17 << 30}, "gpu_memory_bytes", "16.0 GiB for GPU 0, got 17.0 GiB per task"),
        ({"gpu_memory_bytes": 9 << 30, "tasks_per_gpu": 2}, "gpu_memory_bytes", "of 2 tasks must fit into"),
    ],
)
def test_what_cannot_be_is_told_at_its_field(given: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        CudaKind().expected_hosts(options(**given))
    assert caught.value.field == f"options.{field}"


def test_tasks_share_a_gpu_by_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told_by_driver = _driver(tmp_path)
    monkeypatch.setattr("jupyter_dtf.backend.kinds.cuda.read_gpus", lambda: told_by_driver)
    assert CudaKind().expected_hosts(options())[0].gpus == [0]
    with pytest.raises(InvalidInput, match=r"`tasks_per_gpu` must be 1 for GPU 0, .* \(pip install nvidia-ml-py\)"):
        CudaKind().expected_hosts(options(tasks_per_gpu=2))


def _driver(directory: Path) -> list[Any]:
    from jupyter_dtf.backend.machine import gpus as reading

    (directory / "0000").mkdir()
    (directory / "0000" / "information").write_text("Model: \t L4\nGPU UUID: \t GPU-x\n")
    return reading._told_by_driver(directory)


def test_what_a_run_asks_for_goes_before_what_its_cluster_has() -> None:
    defaults = CudaKind().task_defaults(options(gpu_memory_bytes=4 << 30, growth=False, infiniband=False))
    capped = defaults.gpus_for(RunRequest(), are_drawn=False)
    assert capped == GpuRequest(None, 4 << 30, grows=False, is_needed=True)
    assert defaults.gpus_for(RunRequest(), are_drawn=True) == GpuRequest(None, None, grows=False)
    assert defaults.gpus_for(RunRequest(gpus_per_task=1), are_drawn=False) == GpuRequest(
        1, None, grows=False, is_needed=True
    )
    request = RunRequest(environment={"NCCL_IB_DISABLE": "0", "OTHER": "1"})
    defaults.complete(request)
    assert request.environment == {"NCCL_IB_DISABLE": "0", "OTHER": "1"}
    assert CudaKind().task_defaults(options()) == type(defaults)(gpu_needed=True)
