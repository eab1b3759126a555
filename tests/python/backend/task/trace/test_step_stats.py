"""Tests with handmade RunMetadata, like that of a session over two tasks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from jupyter_dtf.backend.task.trace.step_stats import rows

from .graphs import Graph, Node, between

T0, T1 = (f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in (0, 1))
BEGUN_US = 1_800_000_000_000_000


def node(name: str, start: int, span: tuple[int, int, int], label: str = "", size: int = 0) -> Any:
    """Return a node's record. ``span``: when, after ``start``, the operation begins and ends, and when all is done."""
    op_start, op_end, end = span
    allocation = SimpleNamespace(requested_bytes=size)
    return SimpleNamespace(
        node_name=name,
        timeline_label=label,
        all_start_micros=BEGUN_US + start,
        op_start_rel_micros=op_start,
        op_end_rel_micros=op_end,
        all_end_rel_micros=end,
        output=[SimpleNamespace(slot=0, tensor_description=SimpleNamespace(allocation_description=allocation))],
    )


def metadata(*devices: tuple[str, list[Any]], graphs: tuple[Graph, ...] = ()) -> Any:
    stats = [SimpleNamespace(device=device, node_stats=nodes) for device, nodes in devices]
    return SimpleNamespace(step_stats=SimpleNamespace(dev_stats=stats), partition_graphs=graphs)


def received(name: str, start: int, duration: int, size: int) -> Any:
    label = f"[1.0MB] [2.6Gb/s] edge_4_{name} from {T0} to {T1}"
    return node("RecvTensor", start, (0, duration, duration), label, size)


def test_operations_with_their_type_as_it_ran() -> None:
    ran = [
        node("_SOURCE", 0, (0, 0, 1)),
        node("b", 100, (2, 52, 60), "[mklcpu 1.0MB 1.0MB] b = _MklMatMul(_recv_a_0, _recv_a_0)"),
        node("c", 10, (0, 5, 6), "c = Add(b, b)"),
        node("d", 200, (3, 1, 6)),
    ]
    data = rows(metadata((T0, ran), graphs=(Graph([Node("c", "AddV2", device=T0)]),)), step=4)
    assert data.origin_us == BEGUN_US + 10
    assert [(op.step, op.op, op.op_type, op.start_us, op.duration_us) for op in data.ops] == [
        (4, "c", "AddV2", 0, 5),
        (4, "b", "_MklMatMul", 92, 50),
        (4, "d", "", 193, 0),
    ]
    assert {op.device for op in data.ops} == {"/job:worker/task:0/device:CPU:0"}


def test_kernels_that_are_listed_once_more_without_their_task_are_left_out() -> None:
    ran, again = node("b", 100, (2, 52, 60)), node("b", 102, (0, 50, 50))
    gpu = T0.replace("CPU", "GPU")
    listed = [(f"/device:GPU:0/{name}", [again]) for name in ("stream:all", "stream:16(Compute)", "memcpy", "sync")]
    assert [op.device for op in rows(metadata((gpu, [ran]), *listed), 1).ops] == ["/job:worker/task:0/device:GPU:0"]


def test_a_transfer_begins_when_the_sender_has_the_tensor() -> None:
    made = node("b", 0, (0, 700, 701))
    data = rows(metadata((T0, [made]), (T1, [received("b", 100, 900, 4000), received("other/x", 100, 900, 8)])), 1)
    late, early = data.transfers[::-1]
    assert (late.tensor, late.start_us, late.duration_us, late.bytes) == ("b", 700, 300, 4000)
    assert (early.tensor, early.start_us, early.duration_us) == ("other/x", 100, 900)
    assert (late.source, late.target) == ("/job:worker/task:0/device:CPU:0", "/job:worker/task:1/device:CPU:0")


def test_a_clock_that_is_ahead_makes_no_negative_duration() -> None:
    data = rows(metadata((T0, [node("b", 0, (0, 5000, 5000))]), (T1, [received("b", 100, 900, 4)])), 1)
    assert (data.transfers[0].start_us, data.transfers[0].duration_us) == (1000, 0)


def test_the_devices_of_a_local_session_are_the_tasks() -> None:
    local = "/job:localhost/replica:0/task:0/device:CPU:0"
    data = rows(metadata((local, [node("b", 0, (0, 1, 1))])), 1, "/job:ps/task:2")
    assert data.ops[0].device == "/job:ps/task:2/device:CPU:0"


def test_what_nobody_has_logged_is_completed_from_the_graphs() -> None:
    sent = between("edge_4_b", T0, T1)
    graphs = (
        Graph([Node("b", "MatMul", device=T0), Node("b_S1", "_Send", ("b",), T0, sent)]),
        Graph([Node("b_S2", "_Recv", (), T1, sent), Node("c", "Relu", ("b_S2",), T1), Node("d", "Sum", ("c",), T1)]),
    )
    made = node("b", 0, (0, 500, 501), size=4000)
    used = [node("d", 1500, (0, 9, 9)), node("c", 800, (20, 30, 31))]
    for logged in ([], [received("b", 100, 650, 4000)]):
        (found,) = rows(metadata((T0, [made]), (T1, [*used, *logged]), graphs=graphs), 1).transfers
        assert (found.tensor, found.bytes, found.start_us) == ("b", 4000, 500)
        assert found.duration_us == (250 if logged else 320)  # the tensor has arrived at the latest when c begins


def test_what_is_sent_within_a_task_or_not_at_all_is_no_transfer() -> None:
    other = T0.replace("CPU:0", "CPU:1")
    graphs = (
        Graph([Node("b_S1", "_Send", ("b",), T0, between("edge_4_b", T0, other))]),
        Graph([Node("x_S1", "_Send", ("dead",), T0, between("edge_5_dead", T0, T1))]),
    )
    assert rows(metadata((T0, [node("b", 0, (0, 5, 5))]), graphs=graphs), 1).transfers == []
