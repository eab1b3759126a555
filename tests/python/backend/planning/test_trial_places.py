"""Slots for trials: a task's slots are on one host and include its GPUs, and no slot is assigned twice."""

from __future__ import annotations

import random

import pytest

from jupyter_dtf.backend.planning.gpu_assignment import Gpu, GpuAssignment, share_of
from jupyter_dtf.backend.planning.launch_plan import HostSlot, PlannedTask, plan
from jupyter_dtf.backend.planning.trial_places import Free, place_jobs, places_of, take
from jupyter_dtf.errors import Unavailable

TWO = [HostSlot(f"tcp://{name}", name, name, 2, (Gpu(f"{name}0"), Gpu(f"{name}1"))) for name in ("a", "b")]
JOBS = {"worker": 4, "ps": 1}


def places() -> list[PlannedTask]:
    return places_of(plan({"worker": 4}, TWO))


def seats(found: tuple[list[PlannedTask], list[PlannedTask]] | None) -> list[tuple[str, int, GpuAssignment]]:
    assert found is not None
    return [(task.host.name, task.threads, task.gpus) for task in found[0]]


def test_places_are_those_of_tasks_that_compute() -> None:
    assert place_jobs(JOBS) == {"worker": 4}
    assert [task.job for task in places_of(plan(JOBS, TWO))] == ["worker"] * 4


def test_each_takes_what_is_free() -> None:
    taken: list[PlannedTask] = []
    found = []
    while (one := take(places(), taken, [("worker", 0)], 1)) is not None:
        found += seats(one)
        taken += one[1]
    assert found == [
        ("a", 1, GpuAssignment(("a0",))), ("a", 1, GpuAssignment(("a1",))),
        ("b", 1, GpuAssignment(("b0",))), ("b", 1, GpuAssignment(("b1",))),
    ]  # fmt: skip


def test_a_task_of_two_places_is_on_one_host() -> None:
    first = take(places(), (), [("worker", 0)], 1)
    assert first is not None
    both = take(places(), first[1], [("worker", 0)], 2)
    assert seats(both) == [("b", 2, GpuAssignment(("b0", "b1")))]
    assert both is not None
    assert take(places(), first[1] + both[1], [("worker", 0)], 2) is None
    assert take(places(), (), [("worker", 0)], 3) is None


def test_a_gang_has_ranks() -> None:
    found = take(places(), (), [("worker", 0), ("worker", 1)], 2, threads_per_task=3)
    assert found is not None
    assert [(task.task, task.rank, task.local_rank, task.local_size, task.threads) for task in found[0]] == [
        ("worker:0", 0, 0, 1, 3), ("worker:1", 1, 0, 1, 3),
    ]  # fmt: skip


def test_places_that_have_moved_are_not_given_twice() -> None:
    """The slots are taken while there is one host without GPUs, and requested again when there are two hosts."""
    bare = [HostSlot(f"tcp://{name}", name, name, 4) for name in ("a", "b")]
    before, after = places_of(plan({"worker": 4}, bare[:1])), places_of(plan({"worker": 4}, bare))
    on_a = take(before, (), [("worker", 0), ("worker", 1)], 1)
    assert on_a is not None
    assert seats(take(after, on_a[1], [("worker", 0)], 2)) == [("b", 4, GpuAssignment())]
    assert take(after, on_a[1], [("worker", 0)] * 3, 1) is None


GIB = 1 << 30


def test_trials_share_a_place_and_its_gpu() -> None:
    host = [HostSlot("tcp://a", "a", "a", 4, (Gpu("a0", 16 * GIB), Gpu("a1", 16 * GIB)))]
    two = places_of(plan({"worker": 2}, host))
    taken: list[PlannedTask] = []
    found = []
    while (one := take(two, taken, [("worker", 0)], 1, shares=2)) is not None:
        found += seats(one)
        taken += one[1]
    cap = share_of(16 * GIB, 2)
    assert found == [("a", 1, GpuAssignment((gpu,), cap)) for gpu in ("a0", "a0", "a1", "a1")]
    assert take(two, taken, [("worker", 0)], 1) is None
    assert seats(take(two, taken[:2], [("worker", 0)], 1)) == [
        ("a", 2, GpuAssignment(("a1",)))
    ]  # the slot that is entirely free
    assert seats(take(two, taken[:1], [("worker", 0)], 1, shares=3)) == [
        ("a", 1, GpuAssignment(("a0",), share_of(16 * GIB, 3)))
    ]
    assert take(two, [taken[0], taken[2]], [("worker", 0)], 1) is None  # halves of two GPUs are not one GPU
    capped = [PlannedTask("worker", 0, 0, host[0], 2, 0, 1, GpuAssignment(("a0",), 4 * GIB))]
    assert seats(take(capped, (), [("worker", 0)], 1, shares=2)) == [("a", 1, GpuAssignment(("a0",), 2 * GIB))]
    unknown = places_of(plan({"worker": 1}, TWO[:1]))
    with pytest.raises(Unavailable, match="requires its memory size"):
        take(unknown, (), [("worker", 0)], 1, shares=2)


@pytest.mark.parametrize("gpus", [(), (Gpu("a0", 16 * GIB), Gpu("a1", 16 * GIB), Gpu("a2", 16 * GIB))])
def test_all_is_free_when_all_is_given_back(gpus: tuple[Gpu, ...]) -> None:
    """This holds for shares of any size and when hosts come and go, and no slot is ever assigned twice."""
    hosts = [HostSlot("tcp://a", "a", "a", 8, gpus), HostSlot("tcp://b", "b", "b", 8)]
    all_there = places_of(plan({"worker": 6}, hosts))
    per_host = [sum(place.host.name == name for place in all_there) for name in "ab"]
    for seed in range(300):
        chance = random.Random(seed)
        free = Free(all_there, ())
        held: list[list[PlannedTask]] = []
        for _ in range(60):
            what = chance.random()
            if what < 0.5:
                shares, each = chance.choice([(1, 1), (1, 2), (2, 1), (3, 1), (5, 1), (7, 1)])
                found = free.take([("worker", 0)] * chance.randint(1, 2), each, shares=shares)
                held += [found[1]] if found else []
            elif what < 0.95 and held:
                free.give_back(held.pop(chance.randrange(len(held))))
            elif what >= 0.95:
                before = {name: (host.free, host.left) for name, host in free._hosts.items()}
                free = Free(all_there, [place for mine in held for place in mine])  # as after hosts have come or gone
                assert {name: (host.free, host.left) for name, host in free._hosts.items()} == before
            sizes = [
                sum(1 / place.share for mine in held for place in mine if place.host.name == name) for name in "ab"
            ]
            assert all(size < most + 1e-6 for size, most in zip(sizes, per_host, strict=True))
        for mine in held:
            free.give_back(mine)
        assert free.take([("worker", 0)] * 6, 1) is not None
