"""All clusters of this user, as one viewer sees them: found by their connection files, reached by links."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import logging
import os
import random
import signal
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from watchfiles import awatch

from ..errors import ClusterLost, Conflict, DtfError, NotFound, Unavailable
from ..schema.api import ClusterInfo, ClusterPatch, ClusterRequest, ClusterState, KindInfo, Preview
from ..schema.base import convert
from ..schema.run import RunInfo, RunRequest
from . import clusters, connections, factories, places
from .clusters import StartedCluster
from .connections import Connection
from .link import Link
from .metrics.hub import Hub

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_ANSWER_S = 3.0
"""How long a new viewer waits for the clusters that it has found."""
_RETRY_S = (0.1, 0.5, 1.0, 2.0, 5.0)


class _Member:
    """One cluster: its connection file's word, what its controller last said, the link to it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.info = _described(connection)
        self.link: Link | None = None
        self.linking: asyncio.Task[None] | None = None
        self.pidfd = -1


class Fleet:
    """Every cluster, always current. Lives on one event loop; its methods are called there.

    ``hub`` receives the runs of all clusters.
    """

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._members: dict[str, _Member] = {}
        self._subscribers: list[Callable[[], None]] = []
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopping = asyncio.Event()

    # -- living -------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Find the clusters there are, connect to them, and go on watching for others."""
        directory = places.connections_dir()
        watching = asyncio.Event()
        self._in_background(self._watch(str(directory), watching))
        await watching.wait()
        self.refresh()
        linking = [member.linking for member in self._members.values() if member.linking]
        if linking:  # one that does not answer is tried on, but not waited for
            await asyncio.wait(linking, timeout=FIRST_ANSWER_S)
        await _off_loop(self._mark_orphans)

    async def stop(self) -> None:
        """Leave every cluster as it is."""
        self._stopping.set()
        for member in list(self._members.values()):
            await self._unlink(member)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(self, directory: str, watching: asyncio.Event) -> None:
        # awatch makes its watcher before it first waits: when this callback comes, nothing can be missed any more.
        asyncio.get_running_loop().call_soon(watching.set)
        async for _ in awatch(directory, stop_event=self._stopping, step=20, debounce=200, recursive=False):
            self.refresh()

    def refresh(self) -> None:
        """Read the connection files again. Done by itself when one of them changes."""
        found = connections.read_all()
        for name, connection in found.items():
            member = self._members.get(name)
            if member is not None and member.connection.created != connection.created:
                self._gone(member)
                member = None
            if member is None:
                member = self._members[name] = _Member(connection)
            self._update(member, connection)
        for name in set(self._members) - set(found):
            self._gone(self._members[name])

    def _update(self, member: _Member, connection: Connection) -> None:
        if not connection.is_alive and connection.state is not ClusterState.FAILED:
            self._gone(member, died=True)
            return
        changed = connection != member.connection or member.pidfd < 0
        member.connection = connection
        if connection.state is ClusterState.RUNNING:
            if member.link is None and member.linking is None:
                member.linking = self._in_background(self._connect(member))
        elif member.link is None:
            member.info = _described(connection)
        self._watch_process(member)
        if changed:
            self._tell()

    def _watch_process(self, member: _Member) -> None:
        """Have the kernel say when the cluster process ends."""
        connection = member.connection
        if connection.state is ClusterState.FAILED or connection.pid == os.getpid() or not hasattr(os, "pidfd_open"):
            return  # without process descriptors (outside Linux) the broken link tells of it
        self._unwatch_process(member)
        try:
            member.pidfd = os.pidfd_open(connection.pid)
        except OSError:
            return
        asyncio.get_running_loop().add_reader(member.pidfd, self.refresh_later, member)

    def _unwatch_process(self, member: _Member) -> None:
        if member.pidfd >= 0:
            asyncio.get_running_loop().remove_reader(member.pidfd)
            os.close(member.pidfd)
            member.pidfd = -1

    def refresh_later(self, member: _Member) -> None:
        """The cluster process has ended: it may have left word of why."""
        self._unwatch_process(member)
        self.refresh()

    def _gone(self, member: _Member, *, died: bool = False) -> None:
        name = member.connection.name
        if self._members.get(name) is member:
            del self._members[name]
        self._unwatch_process(member)
        self._in_background(self._unlink(member))
        if died:
            logger.warning("The cluster %s died", name)
            connections.forget(name)
        why = f"The cluster {name} died" if died else f"The cluster {name} was closed"
        self._in_background(_off_loop(lambda: self._mark_lost(name, member.connection.created, why)))
        self._tell()

    def _mark_lost(self, cluster: str, created: float, why: str) -> None:
        for run in self.hub.runs():
            if run.cluster == cluster and run.created >= created and not run.state.is_final:
                with contextlib.suppress(NotFound):
                    self.hub.mark_lost(run.id, why)

    def _mark_orphans(self) -> None:
        """Runs in the store that were under way when their cluster died unseen."""
        alive = {name: member.connection.created for name, member in self._members.items()}
        for run in self.hub.runs():
            if not run.state.is_final and not (run.cluster in alive and run.created >= alive[run.cluster]):
                with contextlib.suppress(NotFound):
                    self.hub.mark_lost(run.id, f"The cluster {run.cluster} died")

    # -- links --------------------------------------------------------------------------------------------------

    async def _connect(self, member: _Member) -> None:
        await asyncio.to_thread(importlib.import_module, "distributed")  # half a second that the loop need not wait
        for wait_s in itertools.chain(_RETRY_S, itertools.repeat(_RETRY_S[-1])):
            if self._members.get(member.connection.name) is not member:
                return
            try:
                await self._attach(member)
            except ClusterLost as error:
                member.info.state = ClusterState.LOST
                member.info.message = str(error)
                self._tell()
                await asyncio.sleep(wait_s * random.uniform(0.7, 1.3))
            else:
                member.linking = None
                self._tell()
                return

    async def _attach(self, member: _Member) -> None:
        """Open the link; return when all that has happened so far has arrived."""
        attached = asyncio.Event()
        member.link = await Link.open(
            member.connection,
            lambda message: self._on_message(member, message, attached),
            lambda: self._on_link_lost(member),
            after=await _off_loop(lambda: self._known(member)),
        )
        await attached.wait()

    def _known(self, member: _Member) -> dict[str, int]:
        name, created = member.connection.name, member.connection.created
        return {
            run.id: self.hub.next_seq(run.id) - 1
            for run in self.hub.runs()
            if run.cluster == name and run.created >= created
        }

    def _on_message(self, member: _Member, message: dict[str, Any], attached: asyncio.Event) -> None:
        try:
            match message["op"]:
                case "event":
                    self.hub.apply(message["run"], message["seq"], message["data"])
                case "run":
                    self.hub.add_run(convert(message["info"], RunInfo))
                case "cluster":
                    member.info = convert(message["info"], ClusterInfo)
                    self._tell()
                case "attached":
                    attached.set()
        except (DtfError, msgspec.MsgspecError):
            logger.exception("A message of the cluster %s could not be followed", member.connection.name)

    def _on_link_lost(self, member: _Member) -> None:
        member.link = None
        if self._members.get(member.connection.name) is member and not self._stopping.is_set():
            member.linking = self._in_background(self._connect(member))

    async def _unlink(self, member: _Member) -> None:
        if member.linking is not None and member.linking is not asyncio.current_task():
            member.linking.cancel()
            member.linking = None
        link, member.link = member.link, None
        if link is not None:
            await link.close()

    # -- for viewers --------------------------------------------------------------------------------------------

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback()`` after any ClusterInfo has changed; returns what ends it."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback) if callback in self._subscribers else None

    def _tell(self) -> None:
        for callback in list(self._subscribers):
            callback()
        self._in_background(self._notify())

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def clusters(self) -> list[ClusterInfo]:
        """Every cluster, oldest first."""
        members = sorted(self._members.values(), key=lambda member: member.connection.created)
        return [member.info for member in members]

    def cluster(self, name: str) -> ClusterInfo:
        """Raises NotFound."""
        return self._member(name).info

    def connection(self, name: str) -> Connection:
        """How to reach a cluster. Raises NotFound."""
        return self._member(name).connection

    def kinds(self) -> list[KindInfo]:
        """What can be started here."""
        return factories.describe_kinds()

    def preview(self, request: ClusterRequest) -> Preview:
        """What a request would make, and what is wrong with it."""
        return clusters.preview(request)

    # -- changing things ----------------------------------------------------------------------------------------

    async def start_cluster(self, request: ClusterRequest) -> ClusterInfo:
        """Start a cluster; returns at once, state ``starting``. Raises as ``clusters.start``."""
        return self.adopt(await asyncio.to_thread(clusters.start, request))

    def adopt(self, started: StartedCluster) -> ClusterInfo:
        """Take note of a cluster process that was started here."""
        name = started.connection.name
        member = self._members.get(name)
        if member is None or member.connection.created != started.connection.created:
            member = self._members[name] = _Member(started.connection)
        loop = asyncio.get_running_loop()

        def on_ready() -> None:
            loop.remove_reader(started.ready_fd)
            os.close(started.ready_fd)
            self.refresh()

        loop.add_reader(started.ready_fd, on_ready)  # sooner than the directory's change is noticed
        self._tell()
        return member.info

    async def ready(self, name: str) -> ClusterInfo:
        """Wait until a cluster can be asked things. Raises NotFound if it ends meanwhile, Unavailable if it failed."""
        async with self._changed:
            while True:
                member = self._member(name)
                if member.connection.state is ClusterState.FAILED:
                    log = connections.log_of(name)
                    raise Unavailable(f"The cluster {name} did not start: {member.connection.message} (see {log})")
                if member.link is not None and member.linking is None:
                    return member.info
                await self._changed.wait()

    async def placed(self, name: str) -> ClusterInfo:
        """Wait until a cluster's hosts are there and its tasks have places. Raises NotFound if it ends meanwhile.

        Raises Unavailable for a device that was drawn and is not there.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._member(name).info.tasks or self._member(name).info.notes)
        info = self._member(name).info
        if not info.tasks:
            raise Unavailable("; ".join(info.notes))
        return info

    async def gone(self, name: str) -> None:
        """Wait until there is no cluster of that name."""
        async with self._changed:
            await self._changed.wait_for(lambda: name not in self._members)

    async def scale(self, name: str, jobs: Mapping[str, int]) -> ClusterInfo:
        """New counts of tasks for the runs to come. Raises InvalidInput, NotFound, ClusterLost."""
        patch = ClusterPatch(jobs=dict(jobs))
        info = convert(await self._link(name).request("scale", jobs=patch.jobs), ClusterInfo)
        self._member(name).info = info  # whoever asks next sees it, though the stream may be behind
        self._tell()
        return info

    async def stop_cluster(self, name: str) -> None:
        """Close a cluster and stop its runs. A second call while it is closing ends it at once. Raises NotFound."""
        member = self._member(name)
        if member.connection.state is ClusterState.FAILED:
            connections.forget(name)
            self.refresh()
        elif member.info.state is ClusterState.STOPPING:
            _signal(member.connection, signal.SIGKILL)
        elif member.link is not None and member.linking is None:
            await member.link.request("close")
        else:
            _signal(member.connection, signal.SIGTERM)
            member.info.state = ClusterState.STOPPING
            self._tell()

    async def close_cluster(self, name: str) -> None:
        """Close a cluster, in whatever state it is, and wait until nothing of it is left. Raises NotFound."""
        if self._member(name).info.state is not ClusterState.STOPPING:
            await self.stop_cluster(name)
        await self.gone(name)

    async def spec(self, name: str) -> dict[str, dict[int, str]]:
        """The endpoints that are reserved for the cluster's tasks."""
        answer = await self._link(name).request("spec")
        return {job: {int(index): endpoint for index, endpoint in tasks.items()} for job, tasks in answer.items()}

    async def dashboard(self, name: str) -> str:
        """The address of Dask's dashboard."""
        return str(await self._link(name).request("dashboard"))

    async def submit(self, name: str, request: RunRequest, payload: bytes) -> RunInfo:
        """Start a run. Raises what the controller raises."""
        link = self._link(name)
        answer = await link.request("submit", request=msgspec.msgpack.encode(request), payload=payload)
        info = convert(answer, RunInfo)
        self.hub.add_run(info)
        return info

    async def stop_run(self, run_id: str, *, now: bool = False) -> None:
        """Ask a run to stop; a second call, or ``now``, ends it. Raises NotFound, Conflict if it has ended."""
        info = self.hub.info(run_id)
        if info.state.is_final:
            raise Conflict(f"A run is stopped while it is under way. Received: {run_id}, {info.state.value}")
        await self._link(info.cluster).request("stop_run", run_id=run_id, now=now)

    async def result(self, run_id: str, task: str) -> bytes:
        """The pickled return value of a task. Raises NotFound when its cluster is gone."""
        return bytes(await self._link(self.hub.info(run_id).cluster).request("result", run_id=run_id, task=task))

    # -- inside -------------------------------------------------------------------------------------------------

    def _member(self, name: str) -> _Member:
        if name not in self._members:
            raise NotFound(f"There is no cluster of that name. Received: {name!r}")
        return self._members[name]

    def _link(self, name: str) -> Link:
        member = self._member(name)
        if member.link is None:
            raise ClusterLost(f"The cluster {name} cannot be asked now. It is {member.info.state.value}")
        return member.link

    def _in_background(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _off_loop(work: Callable[[], T]) -> T:
    """Run ``work`` in a thread; here, where the interpreter is ending and has closed its thread pool already."""
    try:
        return await asyncio.to_thread(work)
    except RuntimeError:
        if threading.main_thread().is_alive():
            raise
        return work()


def _described(connection: Connection) -> ClusterInfo:
    return ClusterInfo(
        name=connection.name,
        kind=connection.kind,
        state=ClusterState.STARTING if connection.state is ClusterState.RUNNING else connection.state,
        message=connection.message,
        jobs=dict(connection.jobs),
        created=connection.created,
    )


def _signal(connection: Connection, number: int) -> None:
    if connection.is_alive and connection.pid != os.getpid():
        with contextlib.suppress(ProcessLookupError):
            os.kill(connection.pid, number)
