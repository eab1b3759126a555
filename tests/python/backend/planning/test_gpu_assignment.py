"""The assignment of GPUs to tasks, on made-up machines."""

from __future__ import annotations

import pytest

from jupyter_dtf.backend.planning.gpu_assignment import (
    CONTEXT_BYTES,
    NO_GPU,
    Gpu,
    GpuAssignment,
    GpuRequest,
    HostedTask,
    assign_gpus,
    share_of,
)
from jupyter_dtf.errors import Unavailable

GIB = 1 << 30


def gpus(count: int, memory_bytes: int = 16 * GIB, first: int = 0) -> tuple[Gpu, ...]:
    return tuple(Gpu(f"GPU-{first + index}", memory_bytes) for index in range(count))


def hosted_tasks(tasks: int, there: tuple[Gpu, ...], host: str = "node-a", first: int = 0) -> list[HostedTask]:
    return [HostedTask(f"worker:{first + index}", "worker", host, host, there) for index in range(tasks)]


def assigned(
    hosted_tasks: list[HostedTask], per_task: int | None = None, memory: float | None = None
) -> list[tuple[str, ...]]:
    return [assignment.gpus for assignment in assign_gpus(hosted_tasks, GpuRequest(per_task, memory)).values()]


@pytest.mark.parametrize(
    ("tasks", "there", "each"),
    [
        (1, 1, [["GPU-0"]]),
        (2, 2, [["GPU-0"], ["GPU-1"]]),
        (2, 4, [["GPU-0", "GPU-1"], ["GPU-2", "GPU-3"]]),
        (3, 4, [["GPU-0"], ["GPU-1"], ["GPU-2"]]),  # equal shares; one is left over
        (2, 1, [[], []]),  # both on the CPU, so that neither waits for the other
        (2, 0, [[], []]),
    ],
)
def test_a_machines_gpus_are_divided_among_its_tasks(tasks: int, there: int, each: list[list[str]]) -> None:
    assert assigned(hosted_tasks(tasks, gpus(there))) == [tuple(ids) for ids in each]


def test_too_few_are_refused_where_a_task_needs_one() -> None:
    needed = GpuRequest(is_needed=True)
    assert [own.gpus for own in assign_gpus(hosted_tasks(1, gpus(2)), needed).values()] == [("GPU-0", "GPU-1")]
    with pytest.raises(Unavailable, match="Requested 1 GPU per task, but host node-a has 1 GPU for 2 tasks"):
        assign_gpus(hosted_tasks(2, gpus(1)), needed)


def test_parameter_servers_and_the_evaluator_get_none() -> None:
    there = gpus(2)
    all_seats = [
        HostedTask("chief:0", "chief", "a", "a", there),
        HostedTask("worker:0", "worker", "a", "a", there),
        HostedTask("ps:0", "ps", "a", "a", there),
        HostedTask("evaluator:0", "evaluator", "a", "a", there),
    ]
    found = assign_gpus(all_seats, GpuRequest(per_task=1))
    assert found == {
        "chief:0": GpuAssignment(("GPU-0",)),
        "worker:0": GpuAssignment(("GPU-1",)),
        "ps:0": NO_GPU,
        "evaluator:0": NO_GPU,
    }


def test_none_are_taken_where_none_are_wanted() -> None:
    assert assigned(hosted_tasks(2, gpus(2)), per_task=0) == [(), ()]


def test_hosts_of_one_machine_share_its_gpus_each_beginning_with_its_own() -> None:
    """As with Dask-CUDA: one worker for each GPU, which sees all GPUs, in rotated order."""
    there = gpus(3)
    rotated = [
        HostedTask(f"worker:{index}", "worker", f"host-{index}", "node-a", there[index:] + there[:index])
        for index in range(3)
    ]
    assert assigned(rotated) == [("GPU-0",), ("GPU-1",), ("GPU-2",)]
    assert assigned(rotated[1:]) == [("GPU-1",), ("GPU-2",)]


def test_hosts_of_one_machine_with_gpus_of_their_own() -> None:
    unequal = [
        HostedTask("worker:0", "worker", "host-0", "node-a", gpus(1)),
        HostedTask("worker:1", "worker", "host-1", "node-a", gpus(3, first=1)),
    ]
    assert assigned(unequal) == [("GPU-0",), ("GPU-1",)]  # two each is more than the first host has


def test_machines_are_apart() -> None:
    tasks = hosted_tasks(1, gpus(2)) + hosted_tasks(2, gpus(2), "node-b", first=1)
    assert assigned(tasks) == [("GPU-0", "GPU-1"), ("GPU-0",), ("GPU-1",)]


def test_caps_let_tasks_share_and_spread_them() -> None:
    assert assigned(hosted_tasks(2, gpus(1)), memory=0.5) == [("GPU-0",), ("GPU-0",)]
    assert assigned(hosted_tasks(3, gpus(2)), memory=0.5) == [("GPU-0",), ("GPU-1",), ("GPU-0",)]
    assert assigned(hosted_tasks(3, gpus(1)), memory=5 * GIB) == [("GPU-0",)] * 3
    assert assigned(hosted_tasks(2, gpus(2)), per_task=2, memory=0.5) == [("GPU-0", "GPU-1")] * 2
    assert assigned(hosted_tasks(3, gpus(1)), memory=1 / 3) == [("GPU-0",)] * 3


def test_a_cap_is_in_bytes_of_the_smallest_of_a_tasks_gpus() -> None:
    mixed = gpus(1, 16 * GIB) + gpus(1, 8 * GIB, first=1)
    (assignment,) = assign_gpus(hosted_tasks(1, mixed), GpuRequest(2, 0.25)).values()
    assert assignment == GpuAssignment(("GPU-0", "GPU-1"), 2 * GIB)
    (assignment,) = assign_gpus(hosted_tasks(1, mixed), GpuRequest(memory=3 * GIB)).values()
    assert assignment == GpuAssignment(("GPU-0",), 3 * GIB)


@pytest.mark.parametrize(
    ("tasks", "there", "per_task", "memory", "message"),
    [
        (1, 1, 2, None, "Requested 2 GPUs per task, but host node-a has 1 GPU for 1 task"),
        (2, 1, 1, None, "Requested 1 GPU per task, but host node-a has 1 GPU for 2 tasks"),
        (2, 0, 1, None, "Requested 1 GPU per task, but host node-a has none for 2 tasks"),
        (3, 1, None, 0.5, "Requested 1 GPU per task, 50% of each, but host node-a has 1 GPU (16 GiB) for 3 tasks"),
        (
            2,
            1,
            None,
            9 * GIB,
            "Requested 1 GPU per task, 9 GiB of each, but host node-a has 1 GPU (16 GiB) for 2 tasks",
        ),
        (1, 0, None, 0.5, "Requested 1 GPU per task, 50% of each, but host node-a has none for 1 task"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(
    tasks: int, there: int, per_task: int | None, memory: float | None, message: str
) -> None:
    with pytest.raises(Unavailable) as raised:
        assigned(hosted_tasks(tasks, gpus(there)), per_task, memory)
    assert str(raised.value) == message


def test_gpus_of_unknown_size_are_whole_or_refused() -> None:
    unknown = gpus(1, memory_bytes=0)
    assert assigned(hosted_tasks(1, unknown)) == [("GPU-0",)]
    assert assigned(hosted_tasks(1, unknown), memory=GIB) == [("GPU-0",)]
    with pytest.raises(Unavailable, match="unknown size"):
        assigned(hosted_tasks(2, unknown), memory=GIB)
    with pytest.raises(Unavailable, match="NVML"):
        assigned(hosted_tasks(1, unknown), memory=0.5)


@pytest.mark.parametrize(
    ("memory_bytes", "tasks", "together"),
    [
        (141 * GIB, 2, int(141 * GIB * 0.95)),
        (24 * GIB, 2, 24 * GIB - 2 * CONTEXT_BYTES),
        (4 * GIB, 8, 2 * GIB),  # their contexts need more memory than there is
        (0, 2, 0),
    ],
)
def test_tasks_that_share_a_gpu_leave_room_for_their_contexts(memory_bytes: int, tasks: int, together: int) -> None:
    assert share_of(memory_bytes, tasks) == together // tasks


def test_memory_that_does_not_grow_is_said_of_tasks_that_have_a_gpu() -> None:
    assignments = assign_gpus(hosted_tasks(2, gpus(2)), GpuRequest(grows=False))
    assert [assignment.grows for assignment in assignments.values()] == [False, False]
    assert assign_gpus(hosted_tasks(1, ()), GpuRequest(grows=False)) == {"worker:0": NO_GPU}
