"""Work that must not grow with the square of the number of hosts."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_dtf.backend.cluster import viewer_streams
from jupyter_dtf.backend.cluster.task_assignment import TaskAssignment
from jupyter_dtf.backend.planning.launch_plan import NO_LAYOUT
from jupyter_dtf.backend.planning.task_defaults import TaskDefaults
from jupyter_dtf.schema.machines import HostInfo

HOSTS = 40


class Hosts:
    """Hosts that record what they were last told to keep ready, and how often they were told."""

    def __init__(self) -> None:
        self.infos: dict[str, HostInfo] = {}
        self.told: dict[str, tuple[int, int]] = {}
        self.times: Counter[str] = Counter()

    def rpc(self, address: str) -> Any:
        async def prepare(threads: int, count: int) -> None:
            await asyncio.sleep(0)
            self.told[address] = threads, count
            self.times[address] += 1

        return SimpleNamespace(dtf_prepare=prepare)

    def arrive(self, number: int) -> str:
        address = f"tls://10.0.0.{number}:1"
        self.infos[address] = HostInfo(name=f"host-{number}", address=address, machine=f"m{number}", threads=2)
        return address


def seated(work: Callable[[Hosts, TaskAssignment], Awaitable[None]], tasks: int) -> Hosts:
    hosts = Hosts()

    async def main() -> None:
        expected: dict[str, Any] = {"are_expected": lambda: False, "defaults": TaskDefaults()}
        await work(hosts, TaskAssignment({"worker": tasks}, NO_LAYOUT, hosts.infos, hosts.rpc, **expected))

    asyncio.run(main())
    return hosts


def test_hosts_that_come_one_after_another_are_not_told_of_each_other_each_time() -> None:
    async def all_come(hosts: Hosts, assignment: TaskAssignment) -> None:
        arrivals = [asyncio.ensure_future(assignment.prepare(hosts.arrive(number))) for number in range(HOSTS)]
        await asyncio.gather(*arrivals)

    hosts = seated(all_come, HOSTS)
    assert hosts.told == dict.fromkeys(hosts.infos, (2, 1))
    assert hosts.times.total() < 3 * HOSTS


def test_a_host_that_has_begun_again_is_told_again_and_no_other() -> None:
    async def come_twice(hosts: Hosts, assignment: TaskAssignment) -> None:
        first, second = hosts.arrive(1), hosts.arrive(2)
        await assignment.prepare()
        await assignment.prepare(first)
        await assignment.prepare()
        assert hosts.times == {first: 2, second: 1}
        assignment.scale({"worker": 4})
        await assignment.prepare()
        assert hosts.told == {first: (1, 2), second: (1, 2)}

    seated(come_twice, 2)


def test_a_cluster_is_described_no_more_often_than_it_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer_streams, "DESCRIBING_SHARE", 1e-12)  # the next one is due in a very long time

    async def change() -> None:
        made, due = itertools.count(1), []
        description = viewer_streams._Description(lambda: next(made), lambda: due.append(0))
        description.change()
        assert [description.plain() for _ in range(3)] == [1, 1, 1]
        for _ in range(100):
            description.change()
        assert len(due) == 1  # viewers are not notified again before the interval is over
        assert description.plain() == 2  # but a request returns the current description
        assert description._timer is not None
        description._timer.cancel()

    asyncio.run(change())
