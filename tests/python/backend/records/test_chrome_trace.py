"""The structure of Chrome's Trace Event Format."""

from __future__ import annotations

import itertools
from typing import Any

from jupyter_dtf.backend.records.chrome_trace import by_device, document, lanes
from jupyter_dtf.schema.trace import TraceData, TracedOp, Transfer

A, B = "/job:worker/task:0/device:CPU:0", "/job:worker/task:1/device:GPU:0"


def op(device: str, start_us: float, duration_us: float, name: str = "x") -> TracedOp:
    return TracedOp(step=3, op=name, op_type="MatMul", device=device, start_us=start_us, duration_us=duration_us)


def transfer(start_us: float, duration_us: float) -> Transfer:
    return Transfer(step=3, tensor="x", source=A, target=B, bytes=4000, start_us=start_us, duration_us=duration_us)


DATA = TraceData(
    origin_us=5,
    ops=[op(A, 0, 10), op(A, 5, 10), op(A, 12, 1), op(B, 20, 10)],
    transfers=[transfer(10, 5), transfer(12, 0)],
    warnings=["beware"],
)


def events(phase: str, data: TraceData = DATA) -> list[dict[str, Any]]:
    return [event for event in document(data)["traceEvents"] if event["ph"] == phase]


def test_a_process_is_a_task_and_a_thread_a_lane() -> None:
    named = {(event["name"], event["pid"], event["tid"]): event["args"]["name"] for event in events("M")}
    processes = {pid: name for (kind, pid, _), name in named.items() if kind == "process_name"}
    threads = {(processes[pid], name) for (kind, pid, _), name in named.items() if kind == "thread_name"}
    assert sorted(processes.values()) == ["worker:0", "worker:1"]
    assert threads == {
        ("worker:0", "CPU:0"),
        ("worker:0", "CPU:0 2"),
        ("worker:0", "CPU:0 sends"),
        ("worker:0", "CPU:0 sends 2"),
        ("worker:1", "GPU:0"),
        ("worker:1", "GPU:0 receives"),
        ("worker:1", "GPU:0 receives 2"),
    }
    places = {(event["pid"], event["tid"]) for event in document(DATA)["traceEvents"] if event["ph"] != "M"}
    assert places <= {(pid, tid) for _, pid, tid in named}


def test_slices_of_a_thread_do_not_overlap() -> None:
    slices = sorted(events("X"), key=lambda event: (event["pid"], event["tid"], event["ts"]))
    assert len(slices) == 4 + 2 * 2
    for one, following in itertools.pairwise(slices):
        if one["tid"] == following["tid"]:
            assert one["ts"] + one["dur"] <= following["ts"]


def test_an_arrow_for_each_transfer_begins_and_ends_in_a_slice() -> None:
    starts, ends = ({event["id"]: event for event in events(phase)} for phase in ("s", "f"))
    assert starts.keys() == ends.keys() == {0, 1}
    assert all(event["bp"] == "e" for event in ends.values())
    for event in (*starts.values(), *ends.values()):
        assert any(
            (one["pid"], one["tid"], one["cat"]) == (event["pid"], event["tid"], "transfer")
            and one["ts"] <= event["ts"] <= one["ts"] + one["dur"]
            for one in events("X")
        )
    assert {event["args"]["bytes"] for event in events("X") if event["cat"] == "transfer"} == {4000}


def test_what_else_there_is_to_know() -> None:
    assert document(DATA)["otherData"] == {"origin_us": 5, "warnings": ["beware"]}
    assert document(TraceData())["traceEvents"] == []


def test_lanes_and_devices() -> None:
    assert lanes(DATA.ops[:3]) == [0, 1, 0]
    assert {device: len(ops) for device, ops in by_device(DATA).items()} == {A: 3, B: 1}
