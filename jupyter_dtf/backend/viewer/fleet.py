"""All clusters of this user, as one viewer sees them: found through connection files and reached over links."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from watchfiles import awatch

from ...errors import ClusterLost, Conflict, NotFound, Unavailable
from ...schema.api import ClusterInfo, ClusterPatch, ClusterState, KindInfo, Preview, read_cluster
from ...schema.base import convert, without_defaults
from ...schema.checkup import Checkup
from ...schema.cluster_request import ClusterRequest
from ...schema.machines import MachineSeries
from ...schema.payload import Packed
from ...schema.run import RunDescriptor, RunInfo, RunRequest, check_running
from ...schema.search_trial import SearchRequest
from ...schema.trace import check_count
from ..kinds import registry
from ..machine import cluster_processes, paths
from ..records.hub import Hub
from . import connections, lost_runs, resuming, starting
from .background import Background, off_loop
from .connections import Connection
from .link import UnknownOperation
from .linking import Linking
from .presence import Presence
from .roster import Roster
from .sending import SENT_APART_BYTES, Sending
from .stopping import Stopping

logger = logging.getLogger(__name__)

WATCH_AGAIN_S = 0.5
MOST_WATCH_AGAIN_S = 5.0
"""The first and the longest pause before another attempt to watch the directory of connection files."""
FIRST_ANSWER_S = 3.0
"""How long a new viewer waits for the clusters that it has found to respond."""


class Fleet:
    """Every cluster of this user, kept up to date. Its methods must be called on its event loop.

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

    # -- lifetime -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Find existing clusters, connect to them, and watch for new ones."""
        try:
            await off_loop(paths.close_to_others)
            directory = paths.connections_dir()
        except Unavailable as error:  # no cluster can exist; starting one raises the same error
            logger.warning("%s", error)
        else:
            watching = asyncio.Event()
            self._background.begin(self._watch(str(directory), watching))
            await watching.wait()
        self.refresh()
        self._background.begin(self._stopping.watch())
        members = self._roster.members
        known = [member.linking or member.dying for member in members.values()]
        if first := [task for task in known if task]:  # a cluster that does not respond is retried in the background
            await asyncio.wait(first, timeout=FIRST_ANSWER_S)
        for member in members.values():
            if member.linking is not None:
                member.look(patience_s=0.0)  # it had enough time to respond: report it as not responding from now on
        there = {name: member.connection for name, member in members.items()}
        await off_loop(lambda: lost_runs.mark_orphans(self.hub, there, self._presence.may_exist))
        self._background.begin(off_loop(cluster_processes.sweep))

    async def stop(self) -> None:
        """Disconnect from all clusters without stopping them."""
        self._is_over.set()
        await self._linking.end_all()
        await self._background.end()
        self._presence.close()

    async def _watch(self, directory: str, watching: asyncio.Event) -> None:
        # awatch creates its watcher before it first waits, so once this callback runs, no change can be missed.
        asyncio.get_running_loop().call_soon(watching.set)
        wait_s, has_told = WATCH_AGAIN_S, False
        while not self._is_over.is_set():
            try:
                async for _ in awatch(directory, stop_event=self._is_over, step=20, debounce=200, recursive=False):
                    wait_s, has_told = WATCH_AGAIN_S, False
                    self._refresh()
            except Exception as error:  # inotify watches or file descriptors are used up
                if not has_told:
                    logger.warning("%s cannot be watched, and is read at intervals instead: %s", directory, error)
                    has_told = True
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._is_over.wait(), wait_s)
            wait_s = min(2 * wait_s, MOST_WATCH_AGAIN_S)
            if not self._is_over.is_set():
                self._refresh()  # pick up changes made in the meantime

    def _refresh(self) -> None:
        try:
            self.refresh()
        except Exception:  # the next change must still be processed
            logger.exception("A change to the connection files could not be processed")

    def refresh(self) -> None:
        """Read the connection files again. This happens automatically when one of them changes."""
        self._presence.refresh()

    # -- queries ------------------------------------------------------------------------------------------------

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback()`` after any ClusterInfo has changed. Returns a function that unsubscribes it."""
        return self._roster.subscribe(callback)

    def clusters(self) -> list[ClusterInfo]:
        """Return all clusters, oldest first."""
        members = sorted(self._roster.members.values(), key=lambda member: member.connection.created)
        return [member.info for member in members]

    def cluster(self, name: str) -> ClusterInfo:
        """Return the info of a cluster. Raises NotFound."""
        return self._roster.find(name).info

    def connection(self, name: str) -> Connection:
        """Return the contents of a cluster's connection file. Raises NotFound."""
        return self._roster.find(name).connection

    def kinds(self) -> list[KindInfo]:
        """Return the kinds of cluster that can be started here."""
        return registry.describe_kinds()

    def preview(self, request: ClusterRequest) -> Preview:
        """Return a preview of the cluster that a request would create, including the request's problems."""
        return starting.preview(request)

    # -- waiting ------------------------------------------------------------------------------------------------

    async def ready(self, name: str) -> ClusterInfo:
        """Wait until a cluster accepts requests.

        Raises:
            NotFound: If the cluster ends first.
            Unavailable: If it failed to start, or its version is not compatible with this one.
            ClusterLost: If it died or does not respond.
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
                raise member.not_answering()
            return member.is_linked

        await self._roster.wait_for(is_ready)
        return self.cluster(name)

    async def placed(self, name: str) -> ClusterInfo:
        """Wait until a cluster's hosts have joined and its tasks have been placed.

        Raises:
            NotFound: If the cluster ends first.
            Unavailable: If the tasks cannot be placed as designed, for example because a device is missing.
            ClusterLost: If it died or does not respond.
        """

        def is_placed() -> bool:
            member = self._roster.find(name)
            if member.connection.state is ClusterState.LOST:
                raise ClusterLost(member.info.message)
            if member.has_given_up:
                raise member.not_answering()
            info = self.cluster(name)
            return bool(info.tasks or info.notes)

        await self._roster.wait_for(is_placed)
        info = self.cluster(name)
        if not info.tasks:
            raise Unavailable("; ".join(info.notes))
        return info

    async def gone(self, name: str) -> None:
        """Wait until no cluster has that name. Raises ClusterLost if the cluster dies instead of closing."""
        members = self._roster.members

        def died() -> bool:
            return name in members and members[name].info.state is ClusterState.LOST

        await self._roster.wait_for(lambda: name not in members or died())
        if died():
            raise ClusterLost(members[name].info.message)

    # -- changes ------------------------------------------------------------------------------------------------

    async def start_cluster(self, request: ClusterRequest) -> ClusterInfo:
        """Start a cluster and immediately return its info, in state ``starting``.

        This may be called before ``start`` has returned. Raises the same errors as ``starting.start``.
        """
        started = await off_loop(lambda: starting.start(request))
        member = self._presence.welcome(started.connection)
        loop = asyncio.get_running_loop()

        def on_ready() -> None:
            loop.remove_reader(started.ready_fd)
            os.close(started.ready_fd)
            self.refresh()

        loop.add_reader(started.ready_fd, on_ready)  # faster than watching the directory
        self._roster.tell()
        return member.info

    async def scale(self, name: str, jobs: Mapping[str, int]) -> ClusterInfo:
        """Set the number of tasks per job for future runs. Raises InvalidInput, NotFound, ClusterLost."""
        patch = ClusterPatch(jobs=dict(jobs))
        info = read_cluster(await self._ask(name, "scale", jobs=patch.jobs))
        self._roster.find(name).info = info  # visible immediately, even if the stream lags behind
        self._roster.tell()
        return info

    async def stop_cluster(self, name: str) -> None:
        """Close a cluster and stop its runs. A second call while it is closing kills it. Raises NotFound.

        A cluster that does not respond is killed; one that has died, or failed to start, is removed from the list.
        """
        await self._stopping.stop_cluster(name)

    async def close_cluster(self, name: str) -> str:
        """Close a cluster in any state and wait until all of its processes and files are gone.

        Returns:
            A message that says where runs were saved, if not in the usual directory; otherwise an empty string.

        Raises:
            NotFound: If there is no such cluster.
            Unavailable: If runs cannot be saved anywhere. The message names the runs that would be lost. Another call
                kills the cluster.
        """
        return await self._stopping.close_cluster(name)

    async def submit(
        self,
        name: str,
        request: RunRequest,
        program: bytes | Packed,
        opened: Callable[[RunInfo], object] = lambda info: None,
    ) -> RunInfo:
        """Start a run, and wait until its program has been sent or the run has ended.

        Args:
            name: The cluster.
            request: The description of the run.
            program: The program to send.
            opened: Called with the run's info as soon as the run is accepted, before a large program is sent.

        Returns:
            The info of the new run.

        Raises:
            NotFound: If there is no such cluster.
            ClusterLost: If the cluster does not respond.
            DtfError: Any other error that the controller raises.
        """
        link, connection = self._roster.find(name).answering_link(), self.connection(name)
        encoded = msgspec.msgpack.encode(without_defaults(request))
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
        """Register a run that a controller has accepted. Its first events may have arrived before the reply."""
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
        """Submit a new run that continues another one from a checkpoint.

        Args:
            run_id: The run to continue.
            cluster: The cluster to run on; by default, the cluster of the run to continue. It may still be starting.
            step: The step of the checkpoint, by default the newest.
            opened: Called with the new run's info as soon as the run is accepted, as in ``submit``.

        Returns:
            The info of the new run.

        Raises:
            NotFound: If there is no such run, checkpoint or cluster, or the cluster ends first.
            Conflict: If the run cannot be continued; the message says why.
            Unavailable: If the cluster failed to start, or its version is not compatible with this one.
            ClusterLost: If the cluster died or does not respond.
        """
        goes_on = await off_loop(lambda: resuming.prepared(self.hub, run_id, step))
        name = cluster or resuming.own_cluster(goes_on.was, self.clusters())
        await self.ready(name)
        new = await self.submit(name, goes_on.request, goes_on.program, opened)
        await off_loop(lambda: goes_on.keep_for(new))
        return new

    async def pause_run(self, run_id: str) -> None:
        """Pause a run: its tasks write a checkpoint and end. Raises NotFound, Conflict, ClusterLost."""
        await self._ask_for_run(run_id, "pause_run", "paused")

    async def continue_run(self, run_id: str) -> None:
        """Continue a paused run. Raises the same errors as ``pause_run``."""
        await self._ask_for_run(run_id, "continue_run", "continued")

    async def profile_run(self, run_id: str, steps: int) -> int:
        """Have a run's tasks trace their next steps. Returns the number of the profile within the run.

        Raises InvalidInput, and the same errors as ``pause_run``.
        """
        check_count(steps)
        info = self.hub.info(run_id)
        check_running(info, "profiled")
        return int(await self._ask(info.cluster, "profile_run", run_id=run_id, steps=steps))

    async def _ask_for_run(self, run_id: str, op: str, done: str) -> None:
        info = self.hub.info(run_id)
        if info.state.is_final:
            raise Conflict(f"Only an active run can be {done}, but {run_id} is {info.state.value}")
        await self._ask(info.cluster, op, run_id=run_id)

    async def stop_run(self, run_id: str, *, now: bool = False, pruned: str = "") -> None:
        """Ask a run to stop.

        Args:
            run_id: The run.
            now: Whether to kill the run immediately. A second call also kills it.
            pruned: The reason, for a trial that is stopped early.

        Raises:
            NotFound: If there is no such run.
            Conflict: If it has already ended.
        """
        await self._stopping.stop_run(run_id, now=now, pruned=pruned)

    async def ask_search(self, search_id: str, request: SearchRequest) -> None:
        """Ask the program that drives a search to stop the search or to run more trials. Does not wait for the program.

        Raises:
            NotFound: If the search has no trials.
            Conflict: If none of its trials is running, or if trials cannot be added to the search.
        """
        trials = [info for info in await off_loop(self.hub.runs) if info.trial and info.trial.search == search_id]
        if not trials:
            raise NotFound(f"There is no search {search_id}")
        going = next((info for info in trials if not info.state.is_final), None)
        if going is None:
            raise Conflict("A search must be running to be stopped or extended, but none of its trials is active")
        if request.more and not (going.trial and going.trial.may_grow):
            raise Conflict(
                "Trials can be added only to a search that was started with `trials` and is not a grid search"
            )
        await self._ask(going.cluster, "ask_search", run_id=going.id, stop=request.stop, more=request.more)

    # -- requests to a cluster ----------------------------------------------------------------------------------

    async def spec(self, name: str) -> dict[str, dict[int, str]]:
        """Return the endpoints reserved for the cluster's tasks, as ``{job: {task index: endpoint}}``."""
        answer = await self._ask(name, "spec")
        return {job: {int(index): endpoint for index, endpoint in tasks.items()} for job, tasks in answer.items()}

    async def machines(self, name: str, after: float = 0.0) -> list[MachineSeries]:
        """Return the figures of the hosts' machines that were recorded after ``after`` (seconds since the epoch)."""
        return convert(await self._ask(name, "machines", after=after), list[MachineSeries])

    async def checkup(self, name: str, *, network: bool = False, clean: bool = False) -> Checkup:
        """Check a cluster's hosts.

        Args:
            name: The cluster.
            network: Whether to measure the bandwidth between hosts as well.
            clean: Whether hosts should remove leftovers of clusters that no longer exist.

        Returns:
            The findings about each host and about the cluster, and the bandwidths (if ``network``).
        """
        alive = [member.connection.token for member in self._roster.members.values() if member.connection.is_alive]
        return convert(await self._ask(name, "checkup", network=network, clean=clean, alive=alive), Checkup)

    async def dashboard(self, name: str, *, start: bool = True) -> str:
        """Return the path of the Unix socket of Dask's dashboard, or an empty string if the dashboard is off.

        ``start``: whether to start the dashboard first.
        """
        return str(await self._ask(name, "dashboard", start=start))

    async def result(self, run_id: str, task: str) -> bytes:
        """Return the pickled return value of a task. Raises NotFound, with the reason, if it is no longer kept."""
        name = self.hub.info(run_id).cluster
        if name not in self._roster.members:
            raise NotFound(f"The results of the run {run_id} were kept by its cluster {name}, which has been closed")
        parts: list[bytes] = []
        at = size = 0
        while not parts or at < size:
            try:
                part = await self._ask(name, "result_part", run_id=run_id, task=task, at=at)
            except UnknownOperation:  # an older cluster, which sends a result in one piece
                return bytes(await self._ask(name, "result", run_id=run_id, task=task))
            parts.append(bytes(part["data"]))
            at, size = at + len(parts[-1]), part["size"]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _ask(self, name: str, op: str, **message: Any) -> Any:
        return await self._roster.find(name).answering_link().request(op, **message)
