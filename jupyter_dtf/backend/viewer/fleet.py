"""All clusters of this user, as one viewer sees them: found by their connection files, reached by links."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from watchfiles import awatch

from ...errors import ClusterLost, Conflict, NotFound, Unavailable
from ...schema.api import ClusterInfo, ClusterPatch, ClusterState, KindInfo, Preview, read_cluster
from ...schema.base import convert
from ...schema.checkup import Checkup
from ...schema.cluster_request import ClusterRequest
from ...schema.machines import MachineSeries
from ...schema.payload import Packed
from ...schema.run import RunDescriptor, RunInfo, RunRequest, RunState
from ...schema.search_trial import SearchRequest
from ...schema.trace import check_count
from ..kinds import registry
from ..machine import family, paths
from ..records.hub import Hub
from . import connections, lost_runs, resuming, starting
from .background import Background, off_loop
from .connections import Connection
from .link import not_answering
from .linking import Linking
from .presence import Presence
from .roster import Roster
from .sending import SENT_APART_BYTES, Sending
from .stopping import Stopping

logger = logging.getLogger(__name__)

FIRST_ANSWER_S = 3.0
"""How long a new viewer waits for the clusters that it has found."""


class Fleet:
    """Every cluster, always current. Lives on one event loop; its methods are called there.

    ``hub`` receives the runs of all clusters.
    """

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._background = Background()
        self._roster = Roster(self._background)
        self._linking = Linking(self._roster, hub, self._background)
        self._presence = Presence(self._roster, self._linking, hub, self._background)
        self._stopping = Stopping(self._roster, self._linking, self._presence, hub, self._background)
        self._is_over = asyncio.Event()

    # -- living -------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Find the clusters there are, connect to them, and go on watching for others."""
        try:
            await off_loop(paths.close_to_others)
            directory = paths.connections_dir()
        except Unavailable as error:  # there can be no cluster; starting one says the same
            logger.warning("%s", error)
        else:
            watching = asyncio.Event()
            self._background.begin(self._watch(str(directory), watching))
            await watching.wait()
        self.refresh()
        self._background.begin(self._stopping.watch())
        members = self._roster.members
        known = [member.linking or member.dying for member in members.values()]
        if first := [task for task in known if task]:  # one that does not answer is tried on, but not waited for
            await asyncio.wait(first, timeout=FIRST_ANSWER_S)
        for member in members.values():
            if member.linking is not None:
                member.look(patience_s=0.0)  # it had its time: whoever asks now is told that it does not answer
        there = {name: member.connection for name, member in members.items()}
        await off_loop(lambda: lost_runs.mark_orphans(self.hub, there))
        self._background.begin(off_loop(family.sweep))

    async def stop(self) -> None:
        """Leave every cluster as it is."""
        self._is_over.set()
        await self._linking.end_all()
        await self._background.end()
        self._presence.close()

    async def _watch(self, directory: str, watching: asyncio.Event) -> None:
        # awatch makes its watcher before it first waits: when this callback comes, nothing can be missed any more.
        asyncio.get_running_loop().call_soon(watching.set)
        async for _ in awatch(directory, stop_event=self._is_over, step=20, debounce=200, recursive=False):
            self.refresh()

    def refresh(self) -> None:
        """Read the connection files again. Done by itself when one of them changes."""
        self._presence.refresh()

    # -- what there is ------------------------------------------------------------------------------------------

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback()`` after any ClusterInfo has changed; returns what ends it."""
        return self._roster.subscribe(callback)

    def clusters(self) -> list[ClusterInfo]:
        """Every cluster, oldest first."""
        members = sorted(self._roster.members.values(), key=lambda member: member.connection.created)
        return [member.info for member in members]

    def cluster(self, name: str) -> ClusterInfo:
        """Raises NotFound."""
        return self._roster.find(name).info

    def connection(self, name: str) -> Connection:
        """How to reach a cluster. Raises NotFound."""
        return self._roster.find(name).connection

    def kinds(self) -> list[KindInfo]:
        """What can be started here."""
        return registry.describe_kinds()

    def preview(self, request: ClusterRequest) -> Preview:
        """What a request would make, and what is wrong with it."""
        return starting.preview(request)

    # -- waiting ------------------------------------------------------------------------------------------------

    async def ready(self, name: str) -> ClusterInfo:
        """Wait until a cluster can be asked things.

        Raises NotFound if it ends meanwhile, Unavailable if it failed or is of a version that this one does not
        understand, ClusterLost if it died or does not answer.
        """

        def is_ready() -> bool:
            member = self._roster.find(name)
            if member.connection.state is ClusterState.FAILED:
                log = connections.log_of(name)
                raise Unavailable(f"The cluster {name} did not start: {member.connection.message} (see {log})")
            if member.connection.state is ClusterState.LOST:
                raise ClusterLost(member.info.message)
            if member.info.incompatible:
                raise Unavailable(member.info.incompatible)
            if member.has_given_up:
                raise not_answering(name, member.info.silent_s)
            return member.is_linked

        await self._roster.wait_for(is_ready)
        return self.cluster(name)

    async def placed(self, name: str) -> ClusterInfo:
        """Wait until a cluster's hosts are there and its tasks have places. Raises NotFound if it ends meanwhile.

        Raises Unavailable for a device that was drawn and is not there.
        """
        await self._roster.wait_for(lambda: self.cluster(name).tasks or self.cluster(name).notes)
        info = self.cluster(name)
        if not info.tasks:
            raise Unavailable("; ".join(info.notes))
        return info

    async def gone(self, name: str) -> None:
        """Wait until there is no cluster of that name. Raises ClusterLost if it dies meanwhile."""
        members = self._roster.members

        def died() -> bool:
            return name in members and members[name].info.state is ClusterState.LOST

        await self._roster.wait_for(lambda: name not in members or died())
        if died():
            raise ClusterLost(members[name].info.message)

    # -- changing things ----------------------------------------------------------------------------------------

    async def start_cluster(self, request: ClusterRequest) -> ClusterInfo:
        """Start a cluster; returns at once, state ``starting``. Raises as ``starting.start``.

        It need not wait until ``start`` has returned.
        """
        started = await off_loop(lambda: starting.start(request))
        member = self._presence.welcome(started.connection)
        loop = asyncio.get_running_loop()

        def on_ready() -> None:
            loop.remove_reader(started.ready_fd)
            os.close(started.ready_fd)
            self.refresh()

        loop.add_reader(started.ready_fd, on_ready)  # sooner than the directory's change is noticed
        self._roster.tell()
        return member.info

    async def scale(self, name: str, jobs: Mapping[str, int]) -> ClusterInfo:
        """New counts of tasks for the runs to come. Raises InvalidInput, NotFound, ClusterLost."""
        patch = ClusterPatch(jobs=dict(jobs))
        info = read_cluster(await self._ask(name, "scale", jobs=patch.jobs))
        self._roster.find(name).info = info  # whoever asks next sees it, though the stream may be behind
        self._roster.tell()
        return info

    async def stop_cluster(self, name: str) -> None:
        """Close a cluster and stop its runs. A second call while it is closing ends it at once. Raises NotFound.

        One that does not answer is ended directly; one that has died, or never lived, is forgotten.
        """
        await self._stopping.stop_cluster(name)

    async def close_cluster(self, name: str) -> str:
        """Close a cluster, in whatever state it is, and wait until nothing of it is left. Raises NotFound.

        Returns what it left word of: where its runs are that could not be saved in their place. Raises Unavailable if
        there is no place for them at all, with what would be lost; called again, it ends the cluster at once.
        """
        return await self._stopping.close_cluster(name)

    async def submit(
        self,
        name: str,
        request: RunRequest,
        program: bytes | Packed,
        opened: Callable[[RunInfo], object] = lambda info: None,
    ) -> RunInfo:
        """Start a run: ``opened(its description)`` is called when it is known, before its program has been sent.

        Returns when it has, or the run has ended meanwhile. Raises what the controller raises.
        """
        link, connection = self._roster.find(name).answering_link(), self.connection(name)
        encoded = msgspec.msgpack.encode(request)
        program = program if isinstance(program, Packed) else Packed([program])
        if program.size <= SENT_APART_BYTES:
            info = self._submitted(await link.request("submit", request=encoded, payload=bytes(program)))
            opened(info)
            return info
        sending = Sending(connection, program)
        info = self._submitted(await sending.start(encoded))
        opened(info)
        await sending.finish(lambda: self.hub.info(info.id).state.is_final)
        return info

    def _submitted(self, answer: Any) -> RunInfo:
        """A run that a controller has accepted; its first events may have come before the answer."""
        run = convert(answer, RunDescriptor)
        self.hub.add_run(run)
        return self.hub.info(run.id)

    async def resume_run(
        self,
        run_id: str,
        cluster: str = "",
        step: int | None = None,
        opened: Callable[[RunInfo], object] = lambda info: None,
    ) -> RunInfo:
        """As ``submit``, of a run that goes on from a checkpoint of another one: the newest, or that of ``step``.

        It is started on ``cluster``, or else that of the other run, which is waited for if it starts. Raises NotFound
        and Conflict, which say why that cannot be, and what ``ready`` and ``submit`` raise.
        """
        goes_on = await off_loop(lambda: resuming.prepared(self.hub, run_id, step))
        name = cluster or resuming.own_cluster(goes_on.was, self.clusters())
        await self.ready(name)
        new = await self.submit(name, goes_on.request, goes_on.program, opened)
        await off_loop(lambda: goes_on.keep_for(new))
        return new

    async def pause_run(self, run_id: str) -> None:
        """Have a run end its tasks with a checkpoint, and wait. Raises NotFound, Conflict, ClusterLost."""
        await self._ask_for_run(run_id, "pause_run", "paused")

    async def continue_run(self, run_id: str) -> None:
        """Have a paused run go on. Raises as ``pause_run``."""
        await self._ask_for_run(run_id, "continue_run", "continued")

    async def profile_run(self, run_id: str, steps: int) -> int:
        """Have a running run's tasks trace their next steps. Returns which of the run's profiles that is.

        Raises InvalidInput, and as ``pause_run``.
        """
        check_count(steps)
        info = self.hub.info(run_id)
        if info.state is not RunState.RUNNING:
            raise Conflict(f"A run must be running to be profiled, got {run_id}, {info.state.value}")
        return int(await self._ask(info.cluster, "profile_run", run_id=run_id, steps=steps))

    async def _ask_for_run(self, run_id: str, op: str, done: str) -> None:
        info = self.hub.info(run_id)
        if info.state.is_final:
            raise Conflict(f"A run is {done} while it is under way. Received: {run_id}, {info.state.value}")
        await self._ask(info.cluster, op, run_id=run_id)

    async def stop_run(self, run_id: str, *, now: bool = False, pruned: str = "") -> None:
        """Ask a run to stop; a second call, or ``now``, ends it. ``pruned``: why a trial does not promise enough.

        Raises NotFound, Conflict if it has ended.
        """
        await self._stopping.stop_run(run_id, now=now, pruned=pruned)

    async def ask_search(self, search_id: str, request: SearchRequest) -> None:
        """Ask the program that drives a search to stop it, or to have more trials. It does so when it hears of it.

        Raises NotFound for a search of which there is no trial, Conflict if none of its trials is under way.
        """
        trials = [info for info in await off_loop(self.hub.runs) if info.trial and info.trial.search == search_id]
        if not trials:
            raise NotFound(f"There is no search {search_id}")
        going = next((info for info in trials if not info.state.is_final), None)
        if going is None:
            raise Conflict("A search is asked while it runs: none of its trials is under way")
        if request.more and not (going.trial and going.trial.may_grow):
            raise Conflict("Only a search that ends after a number of `trials` can be asked for more")
        await self._ask(going.cluster, "ask_search", run_id=going.id, stop=request.stop, more=request.more)

    # -- asking a cluster ---------------------------------------------------------------------------------------

    async def spec(self, name: str) -> dict[str, dict[int, str]]:
        """The endpoints that are reserved for the cluster's tasks."""
        answer = await self._ask(name, "spec")
        return {job: {int(index): endpoint for index, endpoint in tasks.items()} for job, tasks in answer.items()}

    async def machines(self, name: str, after: float = 0.0) -> list[MachineSeries]:
        """How the machines of a cluster's hosts were since ``after`` (seconds since the epoch)."""
        return convert(await self._ask(name, "machines", after=after), list[MachineSeries])

    async def checkup(self, name: str, *, network: bool = False, clean: bool = False) -> Checkup:
        """What is found on a cluster's hosts; with ``network``, how fast they send to each other.

        ``clean`` removes what clusters that are gone have left on these machines.
        """
        alive = [member.connection.token for member in self._roster.members.values() if member.connection.is_alive]
        return convert(await self._ask(name, "checkup", network=network, clean=clean, alive=alive), Checkup)

    async def dashboard(self, name: str, *, start: bool = True) -> str:
        """The Unix socket on which Dask's dashboard answers, turned on if it is to ``start``. Empty while it is off."""
        return str(await self._ask(name, "dashboard", start=start))

    async def result(self, run_id: str, task: str) -> bytes:
        """The pickled return value of a task. Raises NotFound when its cluster is gone."""
        return bytes(await self._ask(self.hub.info(run_id).cluster, "result", run_id=run_id, task=task))

    async def _ask(self, name: str, op: str, **message: Any) -> Any:
        return await self._roster.find(name).answering_link().request(op, **message)
