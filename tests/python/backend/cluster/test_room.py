"""Who gets a cluster's places, and when: first come, first served, those who begin again before all others."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_dtf.backend.cluster.room import Room
from jupyter_dtf.backend.planning.launch_plan import HostSlot, PlannedTask, plan
from jupyter_dtf.backend.planning.take_places import places_of
from jupyter_dtf.errors import Unavailable

HOST = [HostSlot("tcp://a", "a", "a", 2, ())]


class Places:
    """A seating with two places on one host."""

    has_all_hosts = True

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


def trial(name: str, places: int = 1) -> Any:
    request = SimpleNamespace(places=places, threads_per_task=0, place_shares=1)
    return SimpleNamespace(id=name, is_active=True, info=SimpleNamespace(jobs={"worker": 1}), request=request)


async def has_settled(*waiting: asyncio.Task[Any]) -> list[bool]:
    """Which of them have their places when everybody has looked."""
    for _ in range(10):
        await asyncio.sleep(0)
    return [task.done() for task in waiting]


async def test_one_that_needs_more_is_not_passed_by_those_that_need_less() -> None:
    room = Room(Places())  # type: ignore[arg-type]
    first, large, small = trial("first"), trial("large", 2), trial("small")
    assert len(await room.seats(first)) == 1
    waiting = [asyncio.create_task(room.seats(each)) for each in (large, small)]
    assert await has_settled(*waiting) == [False, False]
    await room.leave(first)
    assert await has_settled(*waiting) == [True, False]
    await room.leave(large)
    assert await has_settled(*waiting) == [True, True]


async def test_one_that_begins_again_has_the_next_place() -> None:
    room = Room(Places())  # type: ignore[arg-type]
    again, other, third = trial("again"), trial("other"), trial("third")
    await room.seats(again)
    await room.seats(other)
    later = asyncio.create_task(room.seats(third))
    assert await has_settled(later) == [False]
    again.request.places = 2
    assert not room.again(again)  # it has given its own back
    await room._seating.wake()
    assert await has_settled(later) == [False]
    await room.leave(other)
    assert await has_settled(later) == [False]
    assert room.again(again)
    await room.leave(again)
    assert await has_settled(later) == [True]


async def test_one_that_never_fits_is_refused_and_holds_nobody_up() -> None:
    room = Room(Places())  # type: ignore[arg-type]
    first = trial("first")
    await room.seats(first)
    waiting = [asyncio.create_task(room.seats(each)) for each in (trial("too large", 3), trial("small"))]
    assert await has_settled(*waiting) == [False, False]
    await room.leave(first)
    assert await has_settled(*waiting) == [True, True]
    with pytest.raises(Unavailable, match="A trial needs 3 places on one host"):
        waiting[0].result()
    assert len(waiting[1].result()) == 1


async def test_places_are_counted_anew_when_hosts_have_come_or_gone() -> None:
    seating = Places()
    room = Room(seating)  # type: ignore[arg-type]
    first, second, third = trial("first"), trial("second"), trial("third")
    await room.seats(first)
    seating._places = list(seating._places)
    await room.seats(second)
    later = asyncio.create_task(room.seats(third))
    assert await has_settled(later) == [False]
    seating._places = seating._places[:1]  # of two places that were taken one is not there any more
    await room.leave(first)
    assert await has_settled(later) == [False]
    await room.leave(second)
    assert await has_settled(later) == [True]
