"""The queue for a cluster's slots: first come, first served, but restarted runs come before all others."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_dtf.backend.cluster import restarts as restarting
from jupyter_dtf.backend.cluster.restarts import Restarts
from jupyter_dtf.backend.cluster.run_queue import RunQueue
from jupyter_dtf.backend.planning.gpu_assignment import Gpu
from jupyter_dtf.backend.planning.launch_plan import HostSlot, PlannedTask, plan
from jupyter_dtf.backend.planning.trial_places import places_of
from jupyter_dtf.errors import Unavailable
from jupyter_dtf.schema.run import RunState

HOST = [HostSlot("tcp://a", "a", "a", 2, ())]


class Places:
    """A stand-in for ``TaskAssignment`` with two slots on one host."""

    has_all_hosts = True
    present = "1 host"

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._places = places_of(plan({"worker": 2}, HOST))

    def places(self) -> list[PlannedTask]:
        return self._places

    async def until(self, condition: Any) -> None:
        async with self._changed:
            await self._changed.wait_for(condition)

    async def wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def trial(name: str, places: int = 1, shares: int = 1, tasks: int = 1) -> Any:
    request = SimpleNamespace(places=places, threads_per_task=0, place_shares=shares)
    info = SimpleNamespace(jobs={"worker": tasks}, cluster="of two places")
    return SimpleNamespace(
        id=name, is_active=True, is_stopping=False, info=info, request=request, note=lambda *_said: None
    )


async def has_settled(*waiting: asyncio.Task[Any]) -> list[bool]:
    """Return which of these tasks are done once all of them have checked the slots."""
    for _ in range(10):
        await asyncio.sleep(0)
    return [task.done() for task in waiting]


async def test_one_that_needs_more_is_not_passed_by_those_that_need_less() -> None:
    queue = RunQueue(Places())  # type: ignore[arg-type]
    first, large, small = trial("first"), trial("large", 2), trial("small")
    assert len(await queue.acquire(first)) == 1
    waiting = [asyncio.create_task(queue.acquire(each)) for each in (large, small)]
    assert await has_settled(*waiting) == [False, False]
    await queue.leave(first)
    assert await has_settled(*waiting) == [True, False]
    await queue.leave(large)
    assert await has_settled(*waiting) == [True, True]


async def test_one_that_begins_again_has_the_next_place() -> None:
    queue = RunQueue(Places())  # type: ignore[arg-type]
    again, other, third = trial("again"), trial("other"), trial("third")
    await queue.acquire(again)
    await queue.acquire(other)
    later = asyncio.create_task(queue.acquire(third))
    assert await has_settled(later) == [False]
    again.request.places = 2
    assert not queue.again(again)  # its own slot has been returned
    await queue._assignment.wake()
    assert await has_settled(later) == [False]
    await queue.leave(other)
    assert await has_settled(later) == [False]
    assert queue.again(again)
    await queue.leave(again)
    assert await has_settled(later) == [True]


async def test_one_that_never_fits_is_refused_and_holds_nobody_up() -> None:
    queue = RunQueue(Places())  # type: ignore[arg-type]
    first = trial("first")
    await queue.acquire(first)
    waiting = [asyncio.create_task(queue.acquire(each)) for each in (trial("too large", 3), trial("small"))]
    assert await has_settled(*waiting) == [False, False]
    await queue.leave(first)
    assert await has_settled(*waiting) == [True, True]
    with pytest.raises(Unavailable, match="A trial needs 3 slots on one host"):
        waiting[0].result()
    assert len(waiting[1].result()) == 1


async def test_places_are_counted_anew_when_hosts_have_come_or_gone() -> None:
    assignment = Places()
    queue = RunQueue(assignment)  # type: ignore[arg-type]
    first, second, third = trial("first"), trial("second"), trial("third")
    await queue.acquire(first)
    assignment._places = list(assignment._places)
    await queue.acquire(second)
    later = asyncio.create_task(queue.acquire(third))
    assert await has_settled(later) == [False]
    assignment._places = assignment._places[:1]  # one of the two occupied slots no longer exists
    await queue.leave(first)
    assert await has_settled(later) == [False]
    await queue.leave(second)
    assert await has_settled(later) == [True]


async def test_shares_of_other_sizes_leave_whole_places() -> None:
    """A third of one slot is not returned to the other slot, half of which is taken."""
    queue = RunQueue(Places())  # type: ignore[arg-type]
    shared = [trial("half", shares=2), *(trial(f"third {number}", shares=3) for number in range(3))]
    for each in shared:
        assert len(await queue.acquire(each)) == 1
    for each in shared:
        await queue.leave(each)
    assert len(await queue.acquire(trial("half again", shares=2))) == 1
    whole = asyncio.create_task(queue.acquire(trial("whole")))
    assert await has_settled(whole) == [True]
    assert len(whole.result()) == 1


async def test_one_of_shares_that_begins_again_waits_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run would not fit if each of its tasks needed a whole slot."""
    assignment = Places()
    queue = RunQueue(assignment)  # type: ignore[arg-type]
    others, again = [trial("one"), trial("two")], trial("again", shares=2, tasks=4)
    for each in others:
        await queue.acquire(each)
    nobody: Any = None
    monkeypatch.setattr(restarting, "HOSTS_S", 0.0)  # check at once whether it could ever fit
    restarts = Restarts(nobody, assignment, nobody, nobody, nobody, queue=queue)  # type: ignore[arg-type]
    seats = asyncio.create_task(restarts.places_again(again))
    assert await has_settled(seats) == [False]
    for each in others:
        await queue.leave(each)
    assert await has_settled(seats) == [True]
    assert [task.task for task in seats.result()] == [f"worker:{index}" for index in range(4)]


def running(name: str, places: list[PlannedTask], **attempts: int) -> Any:
    """Return a run with these slots. ``attempts`` gives its tasks' attempts by index (``t1=1``); the default is 0."""
    run = trial(name, tasks=len(places))
    run.planned, run.info.state = places, RunState.RUNNING
    run.task_info = lambda task: SimpleNamespace(attempt=attempts.get(f"t{task.rpartition(':')[2]}", 0))
    return run


async def test_places_are_free_once_all_programs_have_succeeded_and_not_before() -> None:
    queue = RunQueue(Places())  # type: ignore[arg-type]
    both = running("both", plan({"worker": 2}, HOST), t1=1)
    await queue.acquire(both)
    later = asyncio.create_task(queue.acquire(trial("later")))
    assert await has_settled(later) == [False]
    assert not queue.program_ended(both, "worker:0", 0)
    assert not queue.program_ended(both, "worker:1", 0)  # from the previous attempt
    assert queue.program_ended(both, "worker:1", 1)
    await queue._assignment.wake()
    assert await has_settled(later) == [True]
    await queue.leave(both)  # its processes have ended: nothing is given back twice
    third = asyncio.create_task(queue.acquire(trial("third")))
    fourth = asyncio.create_task(queue.acquire(trial("fourth")))
    assert await has_settled(third, fourth) == [True, False]
    fourth.cancel()


async def test_a_task_that_was_lost_at_its_end_and_runs_again_keeps_the_places() -> None:
    queue = RunQueue(Places())  # type: ignore[arg-type]
    attempts = {"t0": 0, "t1": 0}
    run = running("both", plan({"worker": 2}, HOST))
    run.task_info = lambda task: SimpleNamespace(attempt=attempts[f"t{task[-1]}"])
    await queue.acquire(run)
    assert not queue.program_ended(run, "worker:0", 0)
    attempts["t0"] = 1  # restarted alone
    assert not queue.program_ended(run, "worker:1", 0)
    assert queue.program_ended(run, "worker:0", 1)


@pytest.mark.parametrize("state", [RunState.PAUSING, RunState.STOPPING, RunState.RESTARTING])
async def test_a_run_that_may_go_on_keeps_its_places(state: RunState) -> None:
    queue = RunQueue(Places())  # type: ignore[arg-type]
    run = running("one", plan({"worker": 1}, HOST))
    await queue.acquire(run)
    run.info.state = state
    assert not queue.program_ended(run, "worker:0", 0)


async def test_a_gpu_is_free_only_after_its_process_has_ended() -> None:
    places = Places()
    gpu = Gpu("GPU-0", 1 << 30)
    places._places = places_of(plan({"worker": 1}, [HostSlot("tcp://a", "a", "a", 2, (gpu,))]))
    queue = RunQueue(places)  # type: ignore[arg-type]
    run = running("one", places._places)
    await queue.acquire(run)
    assert not queue.program_ended(run, "worker:0", 0)
