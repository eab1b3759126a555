from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_dtf.backend.records.chrome_trace import longest
from jupyter_dtf.backend.records.trace_files import read_traces
from jupyter_dtf.errors import NotFound
from jupyter_dtf.schema.trace import TraceData, TracedOp, leave_trace


def op(duration_us: float, start_us: float = 0) -> TracedOp:
    return TracedOp(step=1, op="a", op_type="A", device="/job:w/task:0", start_us=start_us, duration_us=duration_us)


def test_the_traces_of_all_tasks_in_one(tmp_path: Path) -> None:
    for index in range(3):
        leave_trace(tmp_path, f"worker:{index}", TraceData(origin_us=10 * index, ops=[op(1, start_us=1)]))
    assert [one.start_us for one in read_traces(tmp_path).ops] == [0, 10, 20]


@pytest.mark.parametrize("directory", ["", "nowhere"])
def test_none_says_how_to_get_one(directory: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"trace_steps=\(10, 12\)"):
        read_traces(tmp_path / directory if directory else Path(""))


def test_the_longest_stay_in_their_order() -> None:
    data = TraceData(ops=[op(1), op(5), op(2), op(5), op(3)], left_out=1, warnings=["w"])
    kept = longest(data, 3)
    assert [one.duration_us for one in kept.ops] == [5, 5, 3]
    assert (kept.left_out, kept.warnings) == (3, ["w"])
    assert longest(data, 5) is data
