"""Restarts by the driver, and what can go wrong in them, on scripted hosts without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from jupyter_dtf.backend.cluster import driver as driving
from jupyter_dtf.backend.cluster import restarts as restarting
from jupyter_dtf.backend.cluster.active_run import Run
from jupyter_dtf.backend.cluster.driver import Driver
from jupyter_dtf.backend.cluster.preemption import Preemption
from jupyter_dtf.backend.cluster.program_transfer import ProgramTransfer
from jupyter_dtf.backend.cluster.task_assignment import TaskAssignment
from jupyter_dtf.backend.planning.launch_plan import HostLayout
from jupyter_dtf.backend.planning.task_defaults import TaskDefaults
from jupyter_dtf.backend.viewer.background import Background
from jupyter_dtf.errors import Unavailable
from jupyter_dtf.schema.events import Note, Progressed, RunChanged, TaskChanged, decode_event, encode_event
from jupyter_dtf.schema.launch import ENDED_BEFORE, Outcome, TaskResult, TaskSpec
from jupyter_dtf.schema.machines import HostInfo
from jupyter_dtf.schema.restart import Restart
from jupyter_dtf.schema.run import Progress, RunInfo, RunRequest, RunState, TaskState

A, B = "tls://a:1", "tls://b:1"


@pytest.fixture(autouse=True)
def no_time_to_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarting, "AGAIN_S", 0.01)


class Cluster:
    """Hosts that only claim to fork tasks. ``on_launch`` is called with each attempt that they launch."""

    def __init__(
        self, restart: Restart, kind: str = "program", *, rejoins: bool = False, goes_on: bool = False
    ) -> None:
        self.survivors: dict[str, list[str]] = {}
        self.kept: list[tuple[int, list[str]]] = []
        self.hosts = {address: self.host(address) for address in (A, B)}
        self.asked: list[tuple[str, str]] = []
        self.specs: list[TaskSpec] = []
        self.on_launch: Callable[[int], None] = lambda attempt: self.all_run()
        self.on_reserve: Callable[[str, int], None] = lambda address, attempt: None
        self.before_launch: Callable[[str, list[TaskSpec]], None] = lambda address, specs: None
        self.broken: set[str] = set()
        self.closing: set[str] = set()
        self.stays_broken = True
        self.background = Background()
        self.leaving: dict[str, str] = {}
        self.assignment = TaskAssignment(
            {"worker": 2},
            HostLayout(),
            self.hosts,
            self.rpc,
            are_expected=lambda: False,
            defaults=TaskDefaults(),
            leaving=self.leaving,
        )
        anything: Any = self
        self.driver = Driver(
            "c",
            self.rpc,
            assignment=self.assignment,
            watch=anything,
            versions=anything,
            checkups=anything,
            background=self.background,
            on_change=lambda: None,
        )
        info = RunInfo(
            id="r", name="r", cluster="c", kind="fit" if goes_on else kind, jobs={"worker": 2}, goes_on=goes_on
        )
        request = RunRequest(restart=restart, kind=kind, strategy="allreduce", rejoins=rejoins)
        self.run = Run(info, request, lambda *_: None, lambda _: None)
        self.infos = self.hosts
        self.active = [self.run]
        self.preemption = Preemption(anything, anything, self.driver.move)

    def host(self, address: str) -> HostInfo:
        return HostInfo(name=address[6], address=address, machine=address[6], threads=1, memory_bytes=1, slots=0)

    # -- what the driver calls on hosts and on its other collaborators -----------------------------------------------

    def rpc(self, address: str) -> Any:
        cluster = self

        class Host:
            async def dtf_survivors(self, run_id: str) -> list[str]:
                return cluster.survivors.get(address, [])

            async def dtf_reserve(self, run_id: str, places: list[str], **more: Any) -> dict[str, str]:
                cluster.asked.append((address, "dtf_reserve"))
                cluster.on_reserve(address, more.get("attempt", 0))
                if "survivors" in more:
                    if not set(more["survivors"]) <= set(cluster.survivors.get(address, [])):
                        raise Unavailable("has ended in the meantime")
                    cluster.kept.append((more["attempt"], more["survivors"]))
                if address in cluster.broken:
                    cluster.broken = cluster.broken if cluster.stays_broken else set()
                    raise Unavailable("no room")
                port = 1000 + 100 * cluster.run.attempt
                return {place: f"{address[6]}:{port + number}" for number, place in enumerate(places)}

            async def dtf_launch(self, run_id: str, specs: list[bytes], **more: Any) -> dict[str, str] | None:
                if address in cluster.closing:
                    cluster.closing.clear()
                    return None
                mine = [msgspec.json.decode(spec, type=TaskSpec) for spec in specs]
                cluster.before_launch(address, mine)
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
        if op == "dtf_end_frozen":
            self.survivors.clear()
            self.ends(message["task"], message=message["why"])
        if op == "dtf_kill":
            for info in list(self.run.info.tasks):
                if not info.state.is_final:
                    self.ends(info.task, signal="SIGTERM")

    async def before(self, run: Run, planned: Any) -> None:
        """Check nothing."""

    refusals: tuple[str, ...] = ()

    # -- what tasks do ----------------------------------------------------------------------------------------------

    def all_run(self) -> None:
        for task in ("worker:0", "worker:1"):
            attempt = self.run.task_info(task).attempt
            event = TaskChanged(time=1.0, task=task, attempt=attempt, state=TaskState.RUNNING)
            self.run.record_encoded(encode_event(event))

    def ends(self, task: str, **how: Any) -> None:
        self.run.task_ended(TaskResult(task=task, attempt=self.run.task_info(task).attempt, **how))

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

    def texts(self, title: str) -> list[str]:
        """Return the texts of the notes with this title."""
        found = [decode_event(data) for data in self.run.log]
        return [event.text for event in found if isinstance(event, Note) and event.title == title]

    @property
    def notes(self) -> list[str]:
        found = [decode_event(data) for data in self.run.log]
        return [event.title for event in found if isinstance(event, Note)]


async def begun(restart: Restart, kind: str = "program", *, rejoins: bool = False, goes_on: bool = False) -> Cluster:
    cluster = Cluster(restart, kind, rejoins=rejoins, goes_on=goes_on)
    cluster.driver.begin(cluster.run, ProgramTransfer(b"program"))
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


async def test_the_log_of_a_run_that_restarts_says_why_at_every_moment() -> None:
    cluster = await begun(Restart())
    cluster.on_launch = lambda attempt: cluster.all_succeed()
    cluster.ends("worker:1", signal="SIGKILL")
    await cluster.end()
    story = [decode_event(data) for data in cluster.run.log]
    at = next(n for n, event in enumerate(story) if getattr(event, "state", None) is RunState.RESTARTING)
    why = story[at - 1]
    assert isinstance(why, Note) and (why.title, why.attempt) == ("worker:1 died (SIGKILL)", 0)


async def test_a_host_that_is_gone_leaves_its_tasks_to_the_others() -> None:
    cluster = await begun(Restart())
    cluster.on_launch = lambda attempt: cluster.all_succeed()
    del cluster.hosts[B]
    cluster.run.task_ended(TaskResult(task="worker:1"), lost="its host b went away")
    assert (await cluster.end()).state is RunState.SUCCEEDED
    assert {task.host for task in cluster.run.info.tasks} == {"a"}
    assert "worker:1 failed: its host b went away" in cluster.notes


async def leaves(cluster: Cluster, address: str) -> None:
    """Announce that the machine of a host is about to go away."""
    cluster.leaving[address] = "SIGTERM"
    await cluster.preemption.leaves(address)


async def test_a_program_leaves_a_host_that_is_to_go() -> None:
    cluster = await begun(Restart())
    cluster.on_launch = lambda attempt: cluster.all_succeed()
    await leaves(cluster, B)
    assert (await cluster.end()).state is RunState.SUCCEEDED
    assert {task.host for task in cluster.run.info.tasks} == {"a"}
    assert cluster.notes[:2] == ["Host b is going away (SIGTERM)", "worker:1 has to leave its machine (SIGTERM)"]
    assert (B, "dtf_release") in cluster.asked


async def test_a_program_that_does_not_begin_again_stays_as_long_as_it_can() -> None:
    cluster = await begun(Restart(max_restarts=0))
    await leaves(cluster, B)
    assert cluster.notes == ["Host b is going away (SIGTERM)", "The run has no restarts left"]
    cluster.all_succeed()
    assert (await cluster.end()).state is RunState.SUCCEEDED
    assert (B, "dtf_end_frozen") not in cluster.asked


async def test_a_gang_that_is_being_started_leaves_a_host_that_is_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(Restart())
    cluster.on_launch = lambda attempt: cluster.all_succeed()

    async def leaves_once(run: Run, planned: Any) -> None:
        if run.attempt == 0:
            await leaves(cluster, B)

    monkeypatch.setattr(cluster, "before", leaves_once)
    cluster.driver.begin(cluster.run, ProgramTransfer(b"program"))
    assert (await cluster.end()).state is RunState.SUCCEEDED
    assert cluster.states == ["launching", "restarting", "running", "succeeded"]
    assert {task.host for task in cluster.run.info.tasks} == {"a"}


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
    await cluster.assignment.wake()
    assert (await cluster.end()).state is RunState.SUCCEEDED


async def test_a_restart_without_hosts_ends_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarting, "HOSTS_S", 0.01)
    cluster = await begun(Restart())
    cluster.hosts.clear()
    for task in ("worker:0", "worker:1"):
        cluster.run.task_ended(TaskResult(task=task), lost="its host went away")
    info = await cluster.end()
    assert info.state is RunState.FAILED
    assert info.message.startswith(
        "worker:0 failed: its host went away, and the run could not be restarted: No host is available for the"
    )


async def test_a_gang_that_cannot_be_started_again_is_one_loss_more() -> None:
    cluster = await begun(Restart(max_restarts=2))
    cluster.broken = {B}
    cluster.ends("worker:1", signal="SIGKILL")
    info = await cluster.end()
    assert info.state is RunState.FAILED
    assert info.message.startswith("worker:0 was not started: A run starts only if all of its tasks do.")
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
    cluster.driver.begin(cluster.run, ProgramTransfer(b"program"))
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
    cluster.driver.begin(cluster.run, ProgramTransfer(b"program"))
    info = await cluster.end()
    assert (info.state, cluster.run.attempt) == (RunState.FAILED, 0)
    assert info.message.startswith(
        "A run starts only if all of its tasks do. Could not start worker:1 on host b: no room"
    )


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


# -- tasks that survive the loss of others -------------------------------------------------------------------------


async def training(restart: Restart) -> Cluster:
    """Start a training whose worker:0, on host a, can survive the loss of worker:1."""
    cluster = await begun(restart, "fit")
    cluster.on_launch = lambda attempt: cluster.all_succeed()
    cluster.survivors = {A: ["worker:0"]}
    return cluster


async def test_a_task_that_can_go_on_is_kept_and_the_lost_one_is_forked_anew() -> None:
    cluster = await training(Restart())
    cluster.ends("worker:1", signal="SIGKILL")
    info = await cluster.end()
    assert (info.state, cluster.run.attempt) == (RunState.SUCCEEDED, 1)
    assert cluster.kept == [(1, ["worker:0"])]
    assert [spec.joins for spec in cluster.specs] == [False, False, True, True]
    assert [spec.may_go_over for spec in cluster.specs] == [True] * 4
    assert "dtf_kill" not in [op for _, op in cluster.asked]
    (lost,) = cluster.texts("worker:1 died (SIGKILL)")
    assert lost == "In attempt 1 of 4, on b. worker:0 continues; worker:1 is restarted: attempt 2 of 4"


async def test_one_that_has_died_meanwhile_is_one_loss_more() -> None:
    cluster = await training(Restart())
    asked = []

    def dies(address: str) -> list[str]:
        asked.append(address)
        return ["worker:0"] if len(asked) == 1 else []

    cluster.survivors = Answers(dies)
    cluster.ends("worker:1", signal="SIGKILL")
    info = await cluster.end()
    assert (info.state, cluster.run.attempt, cluster.kept) == (RunState.SUCCEEDED, 2, [])
    assert [spec.joins for spec in cluster.specs] == [False] * 4


class Answers(dict[str, list[str]]):
    """The survivors that hosts report, computed anew for each request."""

    def __init__(self, answer: Callable[[str], list[str]]) -> None:
        super().__init__()
        self._answer = answer

    def get(self, address: str, default: Any = None) -> Any:
        return self._answer(address)


async def test_one_that_does_not_come_back_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarting, "RETURN_S", 0.01)
    cluster = await training(Restart())

    def only_the_new_one(attempt: int) -> None:
        if attempt > 1:
            cluster.all_succeed()
            return
        event = TaskChanged(time=1.0, task="worker:1", attempt=attempt, state=TaskState.RUNNING)
        cluster.run.record_encoded(encode_event(event))

    cluster.on_launch = only_the_new_one
    cluster.ends("worker:1", signal="SIGKILL")
    info = await cluster.end()
    assert (info.state, cluster.run.attempt) == (RunState.SUCCEEDED, 2)
    assert "worker:0 has not joined the new attempt within 0.01 s" in cluster.notes
    assert [spec.joins for spec in cluster.specs] == [False, False, True, True, False, False]


async def test_without_room_those_that_are_left_go_on_if_they_are_enough() -> None:
    cluster = await training(Restart(min_workers=1))

    def ends(attempt: int) -> None:
        event = TaskChanged(time=1.0, task="worker:0", attempt=1, state=TaskState.RUNNING)
        cluster.run.record_encoded(encode_event(event))
        cluster.ends("worker:0", exit_code=0, outcome=Outcome(ok=True))

    cluster.on_launch = ends
    del cluster.hosts[B]
    cluster.run.task_ended(TaskResult(task="worker:1"), lost="its host b went away")
    while len(cluster.specs) < 3:
        await asyncio.sleep(0)
    ends(1)
    info = await cluster.end()
    assert info.state is RunState.SUCCEEDED
    last = cluster.specs[-1]
    assert (last.task, last.rank, last.size, last.local_size) == ("worker:0", 0, 1, 1)
    assert {task.task: task.state for task in info.tasks} == {
        "worker:0": TaskState.SUCCEEDED,
        "worker:1": TaskState.FAILED,
    }
    (lost,) = cluster.texts("worker:1 failed: its host b went away")
    assert lost.endswith("worker:0 continues without worker:1, for which there is no room: attempt 2 of 4")


async def test_a_host_that_is_closing_and_knows_no_operation_any_more_is_one_loss_more() -> None:
    cluster = await training(Restart())
    cluster.closing.add(B)
    cluster.ends("worker:1", signal="SIGKILL")
    info = await cluster.end()
    assert (info.state, cluster.run.attempt) == (RunState.SUCCEEDED, 2)
    assert [text for text in cluster.notes if "worker:1 on host b: it is shutting down" in text]


async def test_they_are_more_again_when_there_is_room_which_is_no_restart() -> None:
    cluster = await training(Restart(min_workers=1, max_restarts=2))
    del cluster.hosts[B]
    cluster.run.task_ended(TaskResult(task="worker:1"), lost="its host b went away")
    while len(cluster.specs) < 3:
        await asyncio.sleep(0)
    event = TaskChanged(time=1.0, task="worker:0", attempt=1, state=TaskState.RUNNING)
    cluster.run.record_encoded(encode_event(event))
    cluster.hosts[B] = cluster.host(B)
    await cluster.assignment.wake()
    info = await cluster.end()
    assert (info.state, cluster.run.attempt, cluster.run.unlost) == (RunState.SUCCEEDED, 2, 1)
    assert {task.task: task.attempt for task in info.tasks} == {"worker:0": 2, "worker:1": 2}
    assert cluster.kept == [(1, ["worker:0"]), (2, ["worker:0"])]
    assert [(spec.task, spec.size, spec.joins) for spec in cluster.specs[3:]] == [
        ("worker:0", 2, True),
        ("worker:1", 2, True),
    ]
    assert cluster.texts("There is room for worker:1 again") == ["worker:0 continues with it: attempt 3 of 4"]
    assert "dtf_kill" not in [op for _, op in cluster.asked]


@pytest.mark.parametrize("when", ["hosts get ready", "it is refused", "it is called"])
async def test_a_training_that_ends_while_it_grows_has_ended(when: str) -> None:
    cluster = await training(Restart(min_workers=1, max_restarts=2))
    cluster.on_launch = lambda attempt: None
    del cluster.hosts[B]
    cluster.run.task_ended(TaskResult(task="worker:1"), lost="its host b went away")
    while len(cluster.specs) < 3:
        await asyncio.sleep(0)
    event = TaskChanged(time=1.0, task="worker:0", attempt=1, state=TaskState.RUNNING)
    cluster.run.record_encoded(encode_event(event))
    attempts: list[int] = []

    def ends(message: str = "") -> None:
        """Report the end of worker:0 as its host does. ``message`` says that it had been called to a new attempt."""
        cluster.survivors.clear()
        outcome, code = Outcome(ok=True, result=b"trained"), None if message else 0
        attempt = cluster.run.attempt if message else 1
        result = TaskResult(task="worker:0", attempt=attempt, exit_code=code, message=message, outcome=outcome)
        cluster.run.task_ended(result)

    def reserved(address: str, attempt: int) -> None:
        attempts.append(cluster.run.attempt)
        if when == "hosts get ready":
            ends()

    def launching(address: str, specs: list[TaskSpec]) -> None:
        if address == A and when == "it is refused":
            cluster.survivors.clear()
            asyncio.get_running_loop().call_later(0.02, ends)  # its result is on its way
            raise Unavailable("worker:0 has ended in the meantime")
        if address == A:
            asyncio.get_running_loop().call_soon(ends, ENDED_BEFORE)

    cluster.on_reserve, cluster.before_launch = reserved, launching
    cluster.hosts[B] = cluster.host(B)
    await cluster.assignment.wake()
    info = await cluster.end()
    assert (info.state, cluster.run.results) == (RunState.SUCCEEDED, {"worker:0": b"trained"})
    assert attempts[0] == 1 and cluster.run.attempt == (1 if when == "hosts get ready" else 2)
    assert (B, "dtf_release") in cluster.asked
    assert {task.state for task in info.tasks if task.task == "worker:0"} == {TaskState.SUCCEEDED}


async def test_a_lost_task_comes_to_another_host_where_fewer_are_not_enough() -> None:
    cluster = await training(Restart())
    del cluster.hosts[B]
    cluster.run.task_ended(TaskResult(task="worker:1"), lost="its host b went away")
    assert (await cluster.end()).state is RunState.SUCCEEDED
    assert {task.host for task in cluster.run.info.tasks} == {"a"}
    assert cluster.kept == [(1, ["worker:0"])]


@pytest.mark.parametrize("while_it_starts", [False, True])
async def test_a_stop_while_some_go_on_stops_all(while_it_starts: bool) -> None:
    cluster = await training(Restart())
    cluster.on_launch = lambda attempt: None
    cluster.ends("worker:1", signal="SIGKILL")
    if while_it_starts:
        await cluster.until(RunState.RESTARTING, 1)
    await cluster.driver.stop(cluster.run, now=True)
    info = await cluster.end()
    assert info.state is RunState.STOPPED
    assert all(task.state.is_final for task in info.tasks)
    await cluster.background.end()


# -- a single task that rejoins ------------------------------------------------------------------------------------


async def test_a_task_that_rejoins_is_told_what_its_gang_was() -> None:
    cluster = await begun(Restart(), rejoins=True)
    cluster.ends("worker:1", signal="SIGKILL")
    while "worker:1 is restarted: attempt 2 of 4" not in cluster.notes:
        assert cluster.run.is_active
        await asyncio.sleep(0)
    cluster.all_succeed()
    assert (await cluster.end()).state is RunState.SUCCEEDED
    assert cluster.states == ["launching", "running", "succeeded"]
    assert [task.attempt for task in cluster.run.info.tasks] == [0, 1]
    first, _, again = sorted(cluster.specs, key=lambda spec: (spec.attempt, spec.rank))[-3:]
    before = next(spec for spec in cluster.specs if spec.rank == 1 and not spec.attempt)
    assert msgspec.structs.replace(again, attempt=0, rejoins=False) == before
    assert again.secret == first.secret
    assert [op for _, op in cluster.asked].count("dtf_reserve") == 2
    assert "dtf_kill" not in [op for _, op in cluster.asked]
    assert cluster.notes[0] == "worker:1 died (SIGKILL)"


async def test_a_task_whose_host_is_gone_rejoins_on_another_one() -> None:
    cluster = await begun(Restart(), rejoins=True)
    cluster.on_launch = lambda attempt: cluster.all_succeed()
    del cluster.hosts[B]
    cluster.run.task_ended(TaskResult(task="worker:1"), lost="its host b went away")
    assert (await cluster.end()).state is RunState.SUCCEEDED
    assert [(task.host, task.attempt) for task in cluster.run.info.tasks] == [("a", 0), ("a", 1)]
    again = cluster.specs[-1]
    assert again.machines == ["a", "a"]
    assert again.cluster_spec["worker"][0] == cluster.specs[0].cluster_spec["worker"][0]


async def test_the_whole_gang_begins_again_where_one_task_cannot() -> None:
    cluster = await begun(Restart(), rejoins=True)
    cluster.on_launch = lambda attempt: cluster.all_succeed()
    cluster.hosts.clear()
    cluster.run.task_ended(TaskResult(task="worker:1"), lost="its host b went away")
    while "Waiting for hosts" not in cluster.notes:
        await asyncio.sleep(0)
    cluster.hosts[A] = cluster.host(A)
    await cluster.assignment.wake()
    assert (await cluster.end()).state is RunState.SUCCEEDED
    assert cluster.states == ["launching", "running", "restarting", "running", "succeeded"]
    assert [task.attempt for task in cluster.run.info.tasks] == [2, 2]


async def without_worker_1(**restart: Any) -> Cluster:
    """Start independent workers, of which worker:1 is lost with its host and worker:0 continues."""
    cluster = await begun(Restart(min_workers=1, **restart), "fit", rejoins=True)
    del cluster.hosts[B]
    cluster.run.task_ended(TaskResult(task="worker:1"), lost="its host b went away")
    while "There is no room for worker:1" not in cluster.notes:
        await asyncio.sleep(0)
    return cluster


async def test_where_there_is_no_room_for_a_task_that_could_rejoin_the_others_go_on_and_end() -> None:
    cluster = await without_worker_1()
    (said,) = cluster.texts("There is no room for worker:1")
    assert said == "The other tasks continue without it. No host has 1 free threads for worker:1"
    while (A, "dtf_without") not in cluster.asked:
        await asyncio.sleep(0)
    cluster.ends("worker:0", exit_code=0, outcome=Outcome(ok=True))
    info = await cluster.end()
    assert (info.state, cluster.states) == (RunState.SUCCEEDED, ["launching", "running", "succeeded"])
    assert [task.state for task in info.tasks] == [TaskState.SUCCEEDED, TaskState.FAILED]


async def test_it_rejoins_when_there_is_room_which_is_no_restart() -> None:
    cluster = await without_worker_1(max_restarts=2)
    cluster.on_launch = lambda attempt: cluster.all_succeed()
    cluster.hosts["tls://c:1"] = cluster.host("tls://c:1")
    await cluster.assignment.wake()
    info = await cluster.end()
    assert (info.state, cluster.states) == (RunState.SUCCEEDED, ["launching", "running", "succeeded"])
    assert [(task.host, task.attempt, task.state) for task in info.tasks] == [
        ("a", 0, TaskState.SUCCEEDED),
        ("c", 2, TaskState.SUCCEEDED),
    ]
    assert cluster.texts("There is room for worker:1 again") == ["It is started: attempt 3 of 4"]
    assert (cluster.run.unlost, cluster.specs[-1].rejoins, cluster.specs[-1].rank) == (1, True, 1)
    assert [op for _, op in cluster.asked].count("dtf_without") == 2


async def test_one_whose_new_host_fails_at_once_is_done_without_once_more() -> None:
    cluster = await without_worker_1()
    other = "tls://c:1"
    cluster.broken, cluster.stays_broken = {other}, False
    cluster.on_launch = lambda attempt: cluster.all_succeed()
    cluster.hosts[other] = cluster.host(other)
    await cluster.assignment.wake()
    info = await cluster.end()
    assert (info.state, info.tasks[1].attempt) == (RunState.SUCCEEDED, 3)
    assert cluster.states == ["launching", "running", "succeeded"]
    again = cluster.texts("There is no room for worker:1")[1]
    assert again.endswith("Could not start worker:1 on host c: no room")


async def test_fewer_than_enough_wait_for_room() -> None:
    cluster = await begun(Restart(min_workers=2), "fit", rejoins=True)
    cluster.on_launch = lambda attempt: cluster.all_succeed()
    del cluster.hosts[B]
    cluster.run.task_ended(TaskResult(task="worker:1"), lost="its host b went away")
    while "Waiting for hosts" not in cluster.notes:
        await asyncio.sleep(0)
    cluster.hosts[B] = cluster.host(B)
    await cluster.assignment.wake()
    assert (await cluster.end()).state is RunState.SUCCEEDED
    assert [task.attempt for task in cluster.run.info.tasks] == [2, 2]


# -- restarts with fewer tasks -------------------------------------------------------------------------------------


async def begun_with_fewer() -> Cluster:
    """Start tasks that cannot survive a loss. worker:1 is lost with its host, and worker:0 is restarted alone."""
    cluster = await begun(Restart(min_workers=1, max_restarts=2), "fit", goes_on=True)
    del cluster.hosts[B]
    cluster.run.task_ended(TaskResult(task="worker:1"), lost="its host b went away")
    await cluster.until(RunState.RESTARTING, 1)
    while len(cluster.specs) < 3:
        await asyncio.sleep(0)
    running = TaskChanged(time=1.0, task="worker:0", attempt=1, state=TaskState.RUNNING)
    cluster.run.record_encoded(encode_event(running))
    await cluster.until(RunState.RUNNING, 1)
    return cluster


async def test_tasks_that_cannot_go_over_begin_again_with_fewer_where_there_is_no_room() -> None:
    cluster = await begun_with_fewer()
    cluster.ends("worker:0", exit_code=0, outcome=Outcome(ok=True))
    info = await cluster.end()
    assert info.state is RunState.SUCCEEDED
    last = cluster.specs[-1]
    assert (last.task, last.rank, last.size, last.joins) == ("worker:0", 0, 1, False)
    assert [task.state for task in info.tasks] == [TaskState.SUCCEEDED, TaskState.FAILED]
    assert cluster.texts("There is no room for worker:1") == ["Only worker:0 is restarted"]


async def test_they_are_more_again_by_a_checkpoint_when_there_is_room_which_is_no_restart() -> None:
    cluster = await begun_with_fewer()
    other = "tls://c:1"
    cluster.hosts[other] = cluster.host(other)
    await cluster.assignment.wake()
    await cluster.until(RunState.PAUSING, 1)
    assert (A, "dtf_stop") in cluster.asked
    cluster.on_launch = lambda attempt: cluster.all_succeed()
    cluster.ends("worker:0", exit_code=0, outcome=Outcome(ok=True))
    info = await cluster.end()
    assert (info.state, cluster.run.attempt, cluster.run.unlost) == (RunState.SUCCEEDED, 2, 1)
    assert [(task.host, task.attempt) for task in info.tasks] == [("a", 2), ("c", 2)]
    assert [spec.size for spec in cluster.specs[3:]] == [2, 2]
    (said,) = cluster.texts("There is room for worker:1 again")
    assert said == "All tasks are restarted from a checkpoint of this step"
    await cluster.background.end()


async def test_a_run_that_ends_while_a_task_is_to_rejoin_does_not_wait_for_it() -> None:
    cluster = await begun(Restart(), rejoins=True)
    cluster.on_launch = lambda attempt: cluster.all_succeed()
    cluster.ends("worker:1", signal="SIGKILL")
    cluster.ends("worker:0", exit_code=1, outcome=Outcome(ok=False, message="ValueError: no"))
    info = await cluster.end()
    assert (info.state, info.message) == (RunState.FAILED, "worker:0 failed: ValueError: no, in attempt 2 of 4")
    assert info.tasks[1].state is TaskState.STOPPED


# -- pauses --------------------------------------------------------------------------------------------------------


async def paused(cluster: Cluster) -> None:
    """Pause the run; its tasks end by themselves."""
    await cluster.driver.pause(cluster.run)
    for task in ("worker:0", "worker:1"):
        cluster.ends(task, exit_code=0, outcome=Outcome(ok=True))
    await cluster.until(RunState.PAUSED, cluster.run.attempt)


async def test_a_paused_run_waits_for_room_and_its_next_attempt_is_no_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarting, "HOSTS_S", 0.01)
    cluster = await begun(Restart(max_restarts=1), goes_on=True)
    await paused(cluster)
    assert not cluster.run.by_host
    hosts = dict(cluster.hosts)
    cluster.hosts.clear()
    await cluster.driver.continue_(cluster.run)
    while "no room" not in cluster.run.info.message:
        await asyncio.sleep(0)
    assert cluster.run.info.state is RunState.PAUSED
    cluster.hosts.update(hosts)
    await cluster.driver.continue_(cluster.run)
    await cluster.until(RunState.RUNNING, 1)
    assert cluster.run.info.message == "attempt 2 of 3"
    cluster.on_launch = lambda attempt: cluster.all_succeed()
    cluster.ends("worker:1", signal="SIGKILL")  # the only restart that it is allowed
    assert (await cluster.end()).state is RunState.SUCCEEDED
    assert cluster.run.attempt == 2


async def test_what_comes_between_a_pause_and_its_end() -> None:
    cluster = await begun(Restart(), goes_on=True)
    await cluster.driver.pause(cluster.run)
    cluster.ends("worker:0", exit_code=1, outcome=Outcome(ok=False, message="ValueError: no"))
    info = await cluster.end()
    assert (info.state, info.message) == (RunState.FAILED, "worker:0 failed: ValueError: no")

    cluster = await begun(Restart(), goes_on=True)
    await cluster.driver.pause(cluster.run)
    await cluster.driver.stop(cluster.run, now=True)
    assert (await cluster.end()).state is RunState.STOPPED

    cluster = await begun(Restart(), goes_on=True)
    await cluster.driver.pause(cluster.run)
    cluster.ends("worker:0", signal="SIGKILL")  # a lost task does not prevent the pause
    cluster.ends("worker:1", exit_code=1, outcome=Outcome(ok=False, peer_lost=True, message="worker:0 has gone"))
    await cluster.until(RunState.PAUSED)
    await cluster.driver.end(cluster.run)
    assert (await cluster.end()).message == "stopped while it was paused without a checkpoint: it starts over"

    cluster = await begun(Restart(), goes_on=True)
    await cluster.driver.pause(cluster.run)
    done = Progressed(time=1.0, progress=Progress(done=30, total=30))
    cluster.run.record_encoded(encode_event(done))
    for task in ("worker:0", "worker:1"):
        cluster.ends(task, exit_code=0, outcome=Outcome(ok=True))
    assert (await cluster.end()).state is RunState.SUCCEEDED
    await cluster.background.end()
