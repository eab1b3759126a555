from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.run import RunRequest
from jupyter_dtf.schema.trace import (
    TraceData,
    TracedOp,
    Transfer,
    check_steps,
    leave_trace,
    merge,
    relative,
    task_of,
    trace_file,
)

WORKER, PS = "/job:worker/task:1/device:CPU:0", "/job:ps/task:0/device:CPU:0"


def op(start_us: float, name: str = "a", device: str = WORKER) -> TracedOp:
    return TracedOp(step=1, op=name, op_type="MatMul", device=device, start_us=start_us, duration_us=5)


def transfer(start_us: float) -> Transfer:
    return Transfer(step=1, tensor="a", source=PS, target=WORKER, bytes=4, start_us=start_us, duration_us=1)


def test_times_become_relative_to_the_first() -> None:
    data = relative([op(1_000_030.5), op(1_000_020)], [transfer(1_000_010)])
    assert data.origin_us == 1_000_010
    assert [one.start_us for one in data.ops] == [10, 20.5]
    assert [one.start_us for one in data.transfers] == [0]
    assert relative([], []) == TraceData()


def test_parts_are_merged_on_one_clock() -> None:
    first = TraceData(origin_us=100, ops=[op(0, "first"), op(50, "last")], warnings=["w", "v"], left_out=1)
    second = TraceData(origin_us=120, ops=[op(10, "between")], transfers=[transfer(5)], warnings=["w"], left_out=2)
    data = merge([TraceData(), second, first])
    assert [(one.op, one.start_us) for one in data.ops] == [("first", 0), ("between", 30), ("last", 50)]
    assert [one.start_us for one in data.transfers] == [25]
    assert (data.origin_us, data.warnings, data.left_out) == (100, ["w", "v"], 3)
    assert merge([]) == TraceData()


def test_the_first_begins_at_nothing() -> None:
    data = merge([TraceData(origin_us=100, ops=[op(70.5), op(90)]), TraceData(origin_us=160, transfers=[transfer(11)])])
    assert (data.origin_us, [one.start_us for one in data.ops]) == (170, [0.5, 20])
    assert [one.start_us for one in data.transfers] == [1]


def test_what_was_merged_may_be_merged_again() -> None:
    parts = [TraceData(origin_us=100, ops=[op(0)]), TraceData(origin_us=120, ops=[op(0)])]
    once = [one.start_us for one in merge(parts).ops]
    assert [one.start_us for one in merge(parts).ops] == once == [0, 20]


def test_a_task_leaves_its_trace_in_a_file(tmp_path: Path) -> None:
    data = TraceData(origin_us=7, ops=[op(1)], transfers=[transfer(2)], warnings=["w"])
    leave_trace(tmp_path, "worker:1", data)
    assert [path.name for path in (tmp_path / "traces").iterdir()] == ["worker-1.json"]
    assert msgspec.json.decode(trace_file(tmp_path, "worker:1").read_bytes(), type=TraceData) == data


@pytest.mark.parametrize(("device", "task"), [(WORKER, "worker:1"), (PS, "ps:0"), ("/device:CPU:0", "localhost:0")])
def test_task_of(device: str, task: str) -> None:
    assert task_of(device) == task


def test_steps() -> None:
    assert check_steps(None) == []
    assert check_steps((10, 12)) == [10, 12]
    assert RunRequest(trace_steps=[1, 1]).trace_steps == [1, 1]


@pytest.mark.parametrize("steps", [(), (1,), (1, 2, 3), (0, 1), (3, 2), (1, 200), (1.0, 2), (True, 2), "12", 5])
def test_other_steps_are_refused(steps: Any) -> None:
    with pytest.raises(InvalidInput, match="must be .*, got ") as caught:
        check_steps(steps)
    assert caught.value.field == "trace_steps"
