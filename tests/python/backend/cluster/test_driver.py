"""A gang that is started again on hosts that do what a test says, without a cluster: what goes wrong in a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from jupyter_dtf.backend.cluster import driver as driving
from jupyter_dtf.backend.cluster.active_run import Run
from jupyter_dtf.backend.cluster.driver import Driver
from jupyter_dtf.backend.cluster.parcel import Parcel
from jupyter_dtf.backend.cluster.seating import Seating
from jupyter_dtf.backend.planning.launch_plan import Drawing
from jupyter_dtf.backend.planning.task_defaults import TaskDefaults
from jupyter_dtf.backend.viewer.background import Background
from jupyter_dtf.errors import Unavailable
from jupyter_dtf.schema.events import Note, RunChanged, TaskChanged, decode_event, encode_event
from jupyter_dtf.schema.launch import Outcome, TaskResult, TaskSpec
from jupyter_dtf.schema.machines import HostInfo
from jupyter_dtf.schema.restart import Restart
from jupyter_dtf.schema.run import RunInfo, RunRequest, RunState, TaskState

A, B = "tls://a:1", "tls://b:1"


@pytest.fixture(autouse=True)
def no_time_to_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "AGAIN_S", 0.01)


class Cluster:
    """Hosts that fork nothing and say that they have. ``on_launch`` is called with each attempt that they launch."""

    def __init__(self, restart: Restart) -> None:
        self.hosts = {address: self.host(address) for address in (A, B)}
        self.asked: list[tuple[str, str]] = []
        self.specs: list[TaskSpec] = []
        self.on_launch: Callable[[int], None] = lambda attempt: self.all_run()
        self.broken: set[str] = set()
        self.stays_broken = True
        self.background = Background()
        self.seating = Seating(
            {"worker": 2}, Drawing(), self.hosts, self.rpc, are_expected=lambda: False, defaults=TaskDefaults()
        )
        anything: Any = self
        self.driver = Driver(
            "c",
            self.rpc,
            seating=self.seating,
            watch=anything,
            versions=anything,
            checkups=anything,
            background=self.background,
            on_change=lambda: None,
        )
        info = RunInfo(id="r", name="r", cluster="c", jobs={"worker": 2})
        self.run = Run(info, RunRequest(restart=restart), lambda *_: None, lambda _: None)

    def host(self, address: str) -> HostInfo:
        return HostInfo(name=address[6], address=address, machine=address[6], threads=1, memory_bytes=1, slots=0)

    # -- what a driver asks of hosts and of those who know them ------------------------------------------------------

    def rpc(self, address: str) -> Any:
        cluster = self

        class Host:
            async def dtf_reserve(self, run_id: str, places: list[str], **more: Any) -> dict[str, str]:
                cluster.asked.append((address, "dtf_reserve"))
                if address in cluster.broken:
                    cluster.broken = cluster.broken if cluster.stays_broken else set()
                    raise Unavailable("no room")
                port = 1000 + 100 * cluster.run.attempt
                return {place: f"{address[6]}:{port + number}" for number, place in enumerate(places)}

            async def dtf_launch(self, run_id: str, specs: list[bytes], **more: Any) -> dict[str, str]:
                mine = [msgspec.json.decode(spec, type=TaskSpec) for spec in specs]
                cluster.specs += mine
                asyncio.get_running_loop().call_soon(cluster.launched, mine)
                return {spec.task: str(100 + spec.rank) for spec in mine}

        return Host()

    def launched(self, specs: list[TaskSpec]) -> None:
        if any(spec.rank == 1 for spec in specs):
            self.on_launch(specs[0].attempt)

    async def tell(self, addresses: Any, op: str, **message: Any) -> None:
        for address in addresses:
            if address in self.hosts:
                self.asked.append((address, op))
        if op == "dtf_kill":
            for info in list(self.run.info.tasks):
                if not info.state.is_final:
                    self.ends(info.task, signal="SIGTERM")

    async def before(self, run: Run, planned: Any) -> None:
        """No checks."""

    refusals: tuple[str, ...] = ()

    # -- what tasks do ----------------------------------------------------------------------------------------------

    def all_run(self) -> None:
        for task in ("worker:0", "worker:1"):
            event = TaskChanged(time=1.0, task=task, attempt=self.run.attempt, state=TaskState.RUNNING)
            self.run.record_encoded(encode_event(event))

    def ends(self, task: str, **how: Any) -> None:
        self.run.task_ended(TaskResult(task=task, attempt=self.run.attempt, **how))

    def all_succeed(self) -> None:
        self.all_run()
        for task in ("worker:0", "worker:1"):
            self.ends(task, exit_code=0, outcome=Outcome(ok=True))

    # -- the run ----------------------------------------------------------------------------------------------------

    async def until(self, state: RunState, attempt: int = 0) -> None:
        while (self.run.info.state, self.run.attempt) != (state, attempt):
            assert self.run.is_active, self.run.info
            await asyncio.sleep(0)

    async def end(self) -> RunInfo:
        await asyncio.wait_for(self.run.ended.wait(), 60)
        for _ in range(10):
            await asyncio.sleep(0)
        return self.run.info

    @property
    def states(self) -> list[str]:
        found = [decode_event(data) for data in self.run.log]
        return [event.state.value for event in found if isinstance(event, RunChanged)]

    @property
    def notes(self) -> list[str]:
        found = [decode_event(data) for data in self.run.log]
        return [event.title for event in found if isinstance(event, Note)]


async def begun(restart: Restart) -> Cluster:
    cluster = Cluster(restart)
    cluster.driver.begin(cluster.run, Parcel(b"program"))
    await cluster.until(RunState.RUNNING)
    return cluster


async def test_a_gang_that_is_started_again_has_nothing_of_the_one_before() -> None:
    cluster = await begun(Restart())
    cluster.on_launch = lambda attempt: cluster.all_succeed()
    cluster.ends("worker:1", signal="SIGKILL")
    info = await cluster.end()
    assert (info.state, cluster.run.attempt) == (RunState.SUCCEEDED, 1)
    first, second = cluster.specs[:2], cluster.specs[2:]
    assert [spec.attempt for spec in cluster.specs] == [0, 0, 1, 1]
    assert {spec.secret for spec in first}.isdisjoint(spec.secret for spec in second)
    assert first[0].cluster_spec != second[0].cluster_spec
    ops = [op for address, op in cluster.asked if address == A]
    assert ops[:4] == ["dtf_reserve", "dtf_kill", "dtf_release", "dtf_reserve"]


async def test_a_host_that_is_gone_leaves_its_tasks_to_the_others() -> None:
    cluster = await begun(Restart())
    cluster.on_launch = lambda attempt: cluster.all_succeed()
    del cluster.hosts[B]
    cluster.run.task_ended(TaskResult(task="worker:1"), lost="its host b went away")
    assert (await cluster.end()).state is RunState.SUCCEEDED
    assert {task.host for task in cluster.run.info.tasks} == {"a"}
    assert "worker:1 failed: its host b went away" in cluster.notes


async def test_a_restart_waits_for_a_host_that_comes_back() -> None:
    cluster = await begun(Restart())
    cluster.on_launch = lambda attempt: cluster.all_succeed()
    gone = dict(cluster.hosts)
    cluster.hosts.clear()
    for task in ("worker:0", "worker:1"):
        cluster.run.task_ended(TaskResult(task=task), lost="its host went away")
    while "Waiting for hosts" not in cluster.notes:
        await asyncio.sleep(0)
    cluster.hosts.update(gone)
    await cluster.seating.wake()
    assert (await cluster.end()).state is RunState.SUCCEEDED


async def test_a_restart_without_hosts_ends_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "HOSTS_S", 0.01)
    cluster = await begun(Restart())
    cluster.hosts.clear()
    for task in ("worker:0", "worker:1"):
        cluster.run.task_ended(TaskResult(task=task), lost="its host went away")
    info = await cluster.end()
    assert info.state is RunState.FAILED
    assert info.message.startswith(
        "worker:0 failed: its host went away, and the run could not be started again: A run needs a host"
    )


async def test_a_gang_that_cannot_be_started_again_is_one_loss_more() -> None:
    cluster = await begun(Restart(max_restarts=2))
    cluster.broken = {B}
    cluster.ends("worker:1", signal="SIGKILL")
    info = await cluster.end()
    assert info.state is RunState.FAILED
    assert info.message.startswith("worker:0 was not started: All tasks of a run start or none does.")
    assert info.message.endswith("no room, in attempt 3 of 3")
    assert cluster.states == ["launching", "running", "restarting", "restarting", "failed"]
    assert [task.state for task in info.tasks] == [TaskState.FAILED] * 2
    assert cluster.asked[-1][1] == "dtf_release"


@pytest.mark.parametrize("error", [Unavailable("it is gone"), OSError("Stream is closed")])
async def test_a_host_that_dies_while_the_first_gang_starts_is_a_loss(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(Restart())
    cluster.on_launch = lambda attempt: cluster.all_succeed()

    async def dies(run: Run, planned: Any) -> None:
        if run.attempt == 0:
            del cluster.hosts[B]
            run.task_ended(TaskResult(task="worker:1"), lost="its host b went away")
            raise error

    monkeypatch.setattr(cluster, "before", dies)
    cluster.driver.begin(cluster.run, Parcel(b"program"))
    assert (await cluster.end()).state is RunState.SUCCEEDED
    assert cluster.states == ["launching", "restarting", "running", "succeeded"]
    assert "worker:1 failed: its host b went away" in cluster.notes
    assert cluster.run.attempt == 1


async def test_a_first_gang_that_cannot_start_though_nobody_died_fails_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driving, "LOSS_S", 0.01)
    cluster = Cluster(Restart())
    cluster.broken = {B}
    cluster.driver.begin(cluster.run, Parcel(b"program"))
    info = await cluster.end()
    assert (info.state, cluster.run.attempt) == (RunState.FAILED, 0)
    assert info.message.startswith("All tasks of a run start or none does. Could not start worker:1 on host b: no room")


async def test_a_gang_that_starts_at_the_next_try_runs() -> None:
    cluster = await begun(Restart(max_restarts=2))
    cluster.broken, cluster.stays_broken = {B}, False
    cluster.on_launch = lambda attempt: cluster.all_succeed()
    cluster.ends("worker:1", signal="SIGKILL")
    assert (await cluster.end()).state is RunState.SUCCEEDED
    assert cluster.run.attempt == 2


async def test_a_new_gang_that_dies_before_it_is_there_is_started_once_more() -> None:
    cluster = await begun(Restart(max_restarts=2))

    def dies_once(attempt: int) -> None:
        if attempt == 1:
            cluster.ends("worker:0", signal="SIGKILL")
        else:
            cluster.all_succeed()

    cluster.on_launch = dies_once
    cluster.ends("worker:1", signal="SIGKILL")
    assert (await cluster.end()).state is RunState.SUCCEEDED
    assert cluster.states == ["launching", "running", "restarting", "restarting", "running", "succeeded"]


@pytest.mark.parametrize("when", ["at once", "without hosts", "while it starts"])
async def test_a_stop_in_the_middle_of_a_restart_stops(when: str) -> None:
    cluster = await begun(Restart())
    if when == "without hosts":
        cluster.hosts.clear()
    cluster.on_launch = lambda attempt: None
    cluster.ends("worker:1", signal="SIGKILL")
    if when == "without hosts":
        while "Waiting for hosts" not in cluster.notes:
            await asyncio.sleep(0)
    if when == "while it starts":
        await cluster.until(RunState.RESTARTING, 1)
    await cluster.driver.stop(cluster.run, now=True)
    info = await cluster.end()
    assert info.state is RunState.STOPPED
    assert all(task.state.is_final for task in info.tasks)
    await cluster.background.end()
