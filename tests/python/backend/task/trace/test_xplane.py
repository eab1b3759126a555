"""Tests, with handmade profiles, of what counts as an operation of a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from jupyter_dtf.backend.task.trace.xplane import Window, rows

BEGUN_NS = 1_800_000_000_000_000_000
DEVICE = "/job:worker/task:0/device:CPU:0"
FUNCTION, SESSION, OWN = -12345, 77, -1


@dataclass
class Stat:
    metadata_id: int
    value: Any

    @property
    def int64_value(self) -> Any:
        return self.value

    uint64_value = int64_value

    def WhichOneof(self, _: str) -> str:  # noqa: N802 - the protocol buffer's
        return "ref_value" if isinstance(self.value, str) else "int64_value"

    @property
    def ref_value(self) -> int:
        return NAMES.index(self.value)


KERNELS = ["dense/MatMul:MatMul", "dense/Add:AddV2", ":", "plain"]
NAMES = [
    *KERNELS,
    "",
    "tf_op",
    "id",
    "step_id",
    "_p",
    "_c",
    "name",
    "kernel_type",
    "profile_start_time",
    "reduce",
    "CollectiveReduceV2",
]


@dataclass
class Plane:
    """A plane with threads of events ``(name, start in ns, duration in ns, stats)``."""

    name: str
    threads: list[list[tuple[str, int, int, dict[str, Any]]]] = field(default_factory=list)
    stats: list[Stat] = field(default_factory=list)

    def __post_init__(self) -> None:
        names = sorted({event[0] for thread in self.threads for event in thread})
        self.event_metadata = {number: SimpleNamespace(name=name) for number, name in enumerate(names)}
        self.stat_metadata = {number: SimpleNamespace(name=name) for number, name in enumerate(NAMES)}
        self.lines = [
            SimpleNamespace(
                timestamp_ns=500,
                events=[
                    SimpleNamespace(
                        metadata_id=names.index(name),
                        offset_ps=1000 * start,
                        duration_ps=1000 * duration,
                        stats=[Stat(NAMES.index(key), value) for key, value in stats.items()],
                    )
                    for name, start, duration, stats in thread
                ],
            )
            for thread in self.threads
        ]


def process(start: int, duration: int, step_id: int = FUNCTION) -> tuple[str, int, int, dict[str, Any]]:
    return ("ExecutorState::Process", start, duration, {"id": step_id})


def op(name: str, start: int, duration: int) -> tuple[str, int, int, dict[str, Any]]:
    return (name, start, duration, {})


def found(*threads: list[Any], windows: tuple[Window, ...] | None = None, **devices: str) -> list[tuple[Any, ...]]:
    environment = Plane("Task Environment", stats=[Stat(NAMES.index("profile_start_time"), BEGUN_NS)])
    space = SimpleNamespace(planes=[Plane("/host:CPU", list(threads)), Plane("/host:metadata"), environment])
    all_of_it = (Window(7, BEGUN_NS, BEGUN_NS + 10_000_000),)
    data = rows(space, windows or all_of_it, devices, DEVICE)
    assert data.origin_us == BEGUN_NS // 1000
    return [(one.step, one.op, one.op_type, one.device, one.start_us, one.duration_us) for one in data.ops]


def test_a_functions_operations_to_the_nanosecond() -> None:
    thread = [process(0, 5000), op("dense/MatMul:MatMul", 1001, 203), op("_send_x:_Send", 1300, 10), op("plain", 1, 1)]
    assert found(thread) == [(7, "dense/MatMul", "MatMul", DEVICE, 1.501, 0.203)]


def test_sessions_and_tensorflows_own_work_are_left_out() -> None:
    folding = [process(0, 1000, OWN), op("folded:MatMul", 100, 10)]
    session = [process(2000, 1000, SESSION), op("fed:MatMul", 2100, 10)]
    outside = [op("before:MatMul", 5000, 10)]
    assert found(folding + session + outside) == []


def test_the_graphs_tell_the_device() -> None:
    other = "/job:worker/task:0/device:GPU:0"
    assert found([process(0, 900), op("a:A", 1, 1)], a=other)[0][3] == other


def test_eager_operations_but_no_functions_and_no_words_from_a_client() -> None:
    def eager(name: str, start: int) -> list[Any]:
        return [op(f"EagerLocalExecute: {name}", start, 100), op("EagerKernelExecute", start + 10, 50)]

    thread = eager("MatMul", 0) + eager("__inference_f_12", 200) + eager("PyFunc", 400)
    assert found([*thread, op("EagerKernelExecute", 900, 50)]) == [(7, "MatMul", "MatMul", DEVICE, 0.51, 0.05)]


def test_an_asynchronous_operation_ends_in_another_thread() -> None:
    start = {"_p": 5, "step_id": FUNCTION, "name": "reduce", "kernel_type": "CollectiveReduceV2"}
    starts = [process(0, 100), ("ExecutorState::ProcessAsync::Start", 10, 5, start)]
    lost = ("ExecutorState::ProcessAsync::Start", 20, 5, {**start, "_p": 6})
    ends = [("ExecutorState::ProcessAsync::Done", 4010, 1, {"_c": 5})]
    assert found([*starts, lost], ends) == [(7, "reduce", "CollectiveReduceV2", DEVICE, 0.51, 4.0)]


def test_what_begins_between_the_steps_is_of_none() -> None:
    thread = [process(0, 9000), op("a:A", 1000, 1), op("b:B", 3000, 1), op("c:C", 5000, 1)]
    windows = (Window(1, BEGUN_NS, BEGUN_NS + 2000), Window(2, BEGUN_NS + 5000, BEGUN_NS + 9000))
    assert [one[:2] for one in found(thread, windows=windows)] == [(1, "a"), (2, "c")]


def test_what_runs_on_a_gpu_is_in_its_plane() -> None:
    def kernel(name: str, start: int, duration: int, of: str | None) -> tuple[str, int, int, dict[str, Any]]:
        return (name, start, duration, {} if of is None else {"tf_op": of})

    compute = [
        kernel("before", -2000, 10, "dense/MatMul:MatMul"),
        kernel("gemm", 100, 50, "dense/MatMul:MatMul"),
        kernel("splitK", 160, 40, "dense/MatMul:MatMul"),
        kernel("nothing", 210, 5, None),
        kernel("nothing", 220, 5, ":"),
        kernel("add", 300, 20, "dense/Add:AddV2"),
        kernel("late", 11_000, 7, "dense/MatMul:MatMul"),  # launched in the first step, before the host began another
    ]
    copies = [kernel("MemcpyH2D", 50, 30, "dense/MatMul:MatMul")]
    environment = Plane("Task Environment", stats=[Stat(NAMES.index("profile_start_time"), BEGUN_NS)])
    gpu, host = Plane("/device:GPU:1", [compute, copies]), Plane("/host:CPU", [[process(0, 90), op("read:Read", 1, 9)]])
    windows = (Window(1, BEGUN_NS, BEGUN_NS + 9000), Window(2, BEGUN_NS + 20_000, BEGUN_NS + 30_000))
    data = rows(SimpleNamespace(planes=[host, gpu, environment]), windows, {}, DEVICE, "worker:0/device:GPU:")
    assert [(one.step, one.op, one.op_type, one.device, one.start_us, one.duration_us) for one in data.ops] == [
        (1, "read", "Read", DEVICE, 0.501, 0.009),
        (1, "dense/MatMul", "MatMul", "worker:0/device:GPU:1", 0.55, 0.03),
        (1, "dense/MatMul", "MatMul", "worker:0/device:GPU:1", 0.6, 0.1),
        (1, "dense/Add", "AddV2", "worker:0/device:GPU:1", 0.8, 0.02),
        (1, "dense/MatMul", "MatMul", "worker:0/device:GPU:1", 11.5, 0.007),
    ]
