"""Tests of when devices were busy, according to the times of a step's operations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from jupyter_dtf.backend.task.fit.pipeline.step_record import run_placement

from .placed import device


def ran(**operations: list[tuple[str, int, int]]) -> Any:
    """Return RunMetadata of tasks, given ``(name, start, end)`` of their operations, in microseconds."""
    devices = [
        SimpleNamespace(
            device=f"/job:worker/replica:0/task:{task[-1]}/device:CPU:0",
            node_stats=[
                SimpleNamespace(
                    node_name=name,
                    all_start_micros=10_000 + start,
                    op_start_rel_micros=0,
                    op_end_rel_micros=end - start,
                )
                for name, start, end in nodes
            ],
        )
        for task, nodes in operations.items()
    ]
    return SimpleNamespace(partition_graphs=[], step_stats=SimpleNamespace(dev_stats=devices))


def slots(metadata: Any) -> list[tuple[str, str, int, int, int]]:
    found = run_placement(metadata, {}, {})
    assert found.step_seconds == max(slot.start_s + slot.duration_s for slot in found.timeline)
    return [
        (slot.device, slot.phase, slot.microbatch, round(slot.start_s * 1e6), round(slot.duration_s * 1e6))
        for slot in found.timeline
    ]


def test_work_is_from_one_operation_to_the_next_and_waiting_is_not() -> None:
    metadata = ran(
        task_0=[("forward/0/a/MatMul", 0, 400), ("forward/0/a/Relu", 405, 500), ("forward/1/a/MatMul", 500, 900)],
        task_1=[("forward/0/b/MatMul", 600, 800), ("forward/0/c/MatMul", 900, 1000)],
    )
    assert slots(metadata) == [
        (device(0), "forward", 0, 0, 500),
        (device(0), "forward", 1, 500, 400),
        (device(1), "forward", 0, 600, 200),
        (device(1), "forward", 0, 900, 100),
    ]


def test_what_runs_before_the_batch_is_there_is_no_work_on_it() -> None:
    metadata = ran(
        task_0=[
            ("forward/0/drop/FloorMod", 0, 1),
            ("update/Pow", 1, 30),
            ("forward/0/drop/Mul", 500, 700),
            ("backward/0/drop/Mul", 700, 900),
            ("update/AssignVariableOp", 950, 1000),
        ]
    )
    assert slots(metadata) == [
        (device(0), "forward", 0, 500, 200),
        (device(0), "backward", 0, 700, 200),
        (device(0), "update", 0, 950, 50),
    ]


def test_the_longest_piece_is_seen_however_short() -> None:
    metadata = ran(task_0=[("forward/0/a/Add", 0, 1), ("forward/1/a/MatMul", 1, 10_000)])
    assert slots(metadata) == [(device(0), "forward", 0, 0, 1), (device(0), "forward", 1, 1, 9999)]
