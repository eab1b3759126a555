"""Tests of a task's GPUs, with a stand-in for TensorFlow's list of GPUs, because test machines have none."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_dtf.backend.task import pinned_gpus
from jupyter_dtf.schema.launch import TaskSpec

from .gang import FakeContext, run_gang

MIB = 1 << 20


def task(**fields: Any) -> TaskSpec:
    return TaskSpec(
        run_id="r",
        cluster="c",
        job_name="worker",
        task_index=0,
        cluster_spec={},
        rank=0,
        size=1,
        local_rank=0,
        local_size=1,
        machines=["m"],
        threads=1,
        run_dir="",
        stop_grace_s=0,
        **fields,
    )


class FakeConfig:
    """A stand-in for the part of ``tf.config`` that is used, with this number of GPUs."""

    def __init__(self, gpus: int) -> None:
        self.gpus = [f"gpu {index}" for index in range(gpus)]
        self.done: list[Any] = []
        self.experimental = SimpleNamespace(set_memory_growth=lambda gpu, on: self.done.append((gpu, on)))

    def list_physical_devices(self, kind: str) -> list[str]:
        assert kind == "GPU"
        return self.gpus

    def LogicalDeviceConfiguration(self, memory_limit: int) -> int:  # noqa: N802
        return memory_limit

    def set_logical_device_configuration(self, gpu: str, logical: list[int]) -> None:
        self.done.append((gpu, logical))


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    monkeypatch.delenv("TF_FORCE_GPU_ALLOW_GROWTH", raising=False)


def test_cuda_sees_the_tasks_gpus_and_no_others() -> None:
    pinned_gpus.pin(task(visible_gpus=["GPU-b", "GPU-a"]))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-b,GPU-a"
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    pinned_gpus.pin(task())
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_the_programs_own_environment_comes_first() -> None:
    pinned_gpus.pin(task(visible_gpus=["GPU-a"], environment={"CUDA_VISIBLE_DEVICES": "7"}))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1,2"  # the program's environment is set elsewhere


def test_memory_grows_or_is_capped() -> None:
    notes: list[Any] = []
    config = FakeConfig(2)
    pinned_gpus.limit_memory(task(visible_gpus=["a", "b"]), lambda *note: notes.append(note), config)
    assert config.done == [("gpu 0", True), ("gpu 1", True)]
    config = FakeConfig(1)
    pinned_gpus.limit_memory(
        task(visible_gpus=["a"], gpu_memory_bytes=300 * MIB + 1), lambda *note: notes.append(note), config
    )
    assert config.done == [("gpu 0", [300])]
    config = FakeConfig(1)
    pinned_gpus.limit_memory(task(visible_gpus=["a"], gpu_growth=False), lambda *note: notes.append(note), config)
    assert config.done == [("gpu 0", False)]
    assert notes == []


def test_gpus_that_tensorflow_does_not_see_are_said() -> None:
    notes: list[Any] = []
    pinned_gpus.limit_memory(task(visible_gpus=["GPU-a", "GPU-b"]), lambda *note: notes.append(note), FakeConfig(1))
    assert notes == [("warning", "TensorFlow does not see all GPUs", "It sees 1 of this task's 2 GPUs (GPU-a, GPU-b)")]


def test_gpus_that_others_have_filled_are_said() -> None:
    notes: list[Any] = []
    spec = task(visible_gpus=["GPU-a"], gpu_shortage="GPU 0 has 1.0 GiB of 16.0 GiB free")
    pinned_gpus.limit_memory(spec, lambda *note: notes.append(note), FakeConfig(1))
    ((level, title, text),) = notes
    assert (level, title) == ("warning", "Little GPU memory is free")
    assert text.startswith("GPU 0 has 1.0 GiB of 16.0 GiB free. Other processes hold the rest")


def test_what_the_notebook_was_given_is_not_the_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    pinned_gpus.pin(task(environment={"TF_FORCE_GPU_ALLOW_GROWTH": "false"}))
    assert os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"  # the program's environment is set elsewhere
    pinned_gpus.pin(task(gpu_growth=False))
    assert "TF_FORCE_GPU_ALLOW_GROWTH" not in os.environ


def test_a_server_is_told_the_same() -> None:
    growing = pinned_gpus.gpu_options(task(visible_gpus=["a"]))
    assert growing.allow_growth
    assert not pinned_gpus.gpu_options(task(visible_gpus=["a"], gpu_growth=False)).allow_growth
    capped = pinned_gpus.gpu_options(task(visible_gpus=["a", "b"], gpu_memory_bytes=64 * MIB))
    assert not capped.allow_growth
    assert [list(each.memory_limit_mb) for each in capped.experimental.virtual_devices] == [[64], [64]]


def test_the_runtime_has_not_started_when_a_fork_becomes_a_task() -> None:
    """``pin`` and ``limit_memory`` rely on this: after the imports, devices can still be chosen."""

    def program(ctx: FakeContext) -> Any:
        import keras
        import tensorflow as tf
        from tensorflow.python.eager import context

        assert keras
        started = context.context()._initialized
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        tf.config.set_visible_devices([cpu], "CPU")
        return started, len(tf.config.list_logical_devices("CPU"))

    assert run_gang(1, program) == [(False, 2)]
