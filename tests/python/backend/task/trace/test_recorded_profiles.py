"""Tests with profiles that TensorFlow 2.21 recorded on an H200, without the parts that are not read.

Each has two steps of one task: a small network with Adam, the same compiled by XLA, and a program that computes
``sum(relu(a @ b))`` once in a function and once eagerly.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from jupyter_dtf.backend.task.trace.xplane import Window, rows
from jupyter_dtf.schema.trace import TracedOp

RECORDED = Path(__file__).parent / "recorded"
GPU = "/job:worker/task:0/device:GPU:0"


def recorded(name: str) -> tuple[list[TracedOp], list[Window]]:
    """Return the operations, and the steps with times in nanoseconds since the first one began."""
    told = json.loads(gzip.decompress((RECORDED / f"{name}.json.gz").read_bytes()))
    space = xplane_pb2.XSpace.FromString(gzip.decompress((RECORDED / f"{name}.xplane.pb.gz").read_bytes()))
    windows = [Window(*window) for window in told["windows"]]
    data = rows(space, windows, told["devices"], told["other"], told["gpus"])
    begun_ns = 1000 * data.origin_us
    return data.ops, [Window(step, start - begun_ns, end - begun_ns) for step, start, end in windows]


@pytest.mark.parametrize("name", ["one_task", "one_task_xla", "program_with_eager"])
def test_a_gpu_is_busy_for_a_part_of_its_step_and_before_the_next_one(name: str) -> None:
    ops, windows = recorded(name)
    on_gpu = {window.step: [op for op in ops if op.device == GPU and op.step == window.step] for window in windows}
    for window in windows:
        assert 0 < 1000 * sum(op.duration_us for op in on_gpu[window.step]) < window.end_ns - window.start_ns
        assert 1000 * min(op.start_us for op in on_gpu[window.step]) > window.start_ns
    first, second = windows
    assert 1000 * max(op.start_us + op.duration_us for op in on_gpu[first.step]) < second.start_ns


def test_kernels_of_a_graph_are_its_operations_without_their_launches() -> None:
    ops, _ = recorded("one_task")
    of_step = [op for op in ops if op.step == 7]
    products = [(op.op.removeprefix("StatefulPartitionedCall/"), op.device) for op in of_step if op.op_type == "MatMul"]
    assert products == [
        ("sequential_1_1/first_1/MatMul", GPU),
        ("sequential_1_1/classes_1/MatMul", GPU),
        ("gradient_tape/sequential_1_1/classes_1/MatMul/MatMul", GPU),
        ("gradient_tape/sequential_1_1/classes_1/MatMul/MatMul_1", GPU),
        ("gradient_tape/sequential_1_1/first_1/MatMul/MatMul", GPU),
    ]
    assert sum(op.duration_us for op in of_step if op.device == GPU) == pytest.approx(169, abs=1)


def test_kernels_of_a_compiled_function_are_its_instructions() -> None:
    ops, _ = recorded("one_task_xla")
    of_step = [op for op in ops if op.device == GPU and op.step == 7]
    assert sum(op.duration_us for op in of_step) == pytest.approx(35.2, abs=0.1)
    products = [op.op.removeprefix("StatefulPartitionedCall/") for op in of_step if "MatMul" in op.op_type]
    assert products == [
        f"gemm_fusion_{name}" for name in ("MatMul.8", "MatMul.10", "MatMul_1.2", "MatMul.12", "MatMul.14")
    ]


def test_kernels_of_eager_operations_belong_to_these() -> None:
    ops, _ = recorded("program_with_eager")
    for step in (6, 7):
        assert [op.op for op in ops if op.device == GPU and op.step == step] == [
            *("matmul", "Relu", "Sum"),  # in the function
            *("MatMul", "Relu", "Sum"),
        ]
