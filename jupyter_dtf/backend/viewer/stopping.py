"""Stops clusters and runs: by request, by signal if requests are impossible, or by killing processes if necessary."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal

from ...errors import ClusterLost, Conflict, Unavailable
from ...schema.api import ClusterState
from ..records.hub import Hub
from . import connections, ending
from .background import Background, off_loop
from .connections import Connection
from .linking import Linking
from .member import Member
from .presence import Presence
from .roster import Roster

logger = logging.getLogger(__name__)

LOOK_S = 1.0
"""The interval between two checks of whether clusters respond."""


class Stopping:
    """Makes sure that clusters and runs that were asked to stop do so, whether or not they respond."""

    def __init__(self, roster: Roster, linking: Linking, presence: Presence, hub: Hub, background: Background) -> None:
        self._roster = roster
        self._linking = linking
        self._presence = presence
        self._hub = hub
        self._background = background

    # -- liveness -----------------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Check periodically, until cancelled, whether clusters respond.

        Kill clusters that have not ended in time after they were asked to stop.
        """
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(LOOK_S)
            if loop.time() - before > 2 * LOOK_S:  # this process itself was delayed and has not read messages
                continue
            for member in list(self._roster.members.values()):
                try:
                    self._look_after(member)
                except Exception:
                    logger.exception("It could not be determined whether the cluster %s responds", member.name)

    def _look_after(self, member: Member) -> None:
        if member.look():
            self._roster.tell()
        if member.takes_too_long:
            self._background.begin(self._end(member, f"The cluster {member.name} did not respond and was killed"))

    # -- requests -----------------------------------------------------------------------------------------------

    async def stop_cluster(self, name: str) -> None:
        """Close a cluster and stop its runs. A second call while it is closing kills it. Raises NotFound.

        A cluster that does not respond is killed; one that has died, or failed to start, is removed from the list.
        Raises Unavailable if the cluster would have to be killed, but is on another machine.
        """
        member = self._roster.find(name)
        if member.dying is not None:  # the cluster is dead, but not yet marked as lost
            await asyncio.shield(member.dying)
            if not self._roster.holds(member):
                return
        if member.info.state in (ClusterState.FAILED, ClusterState.LOST):
            connections.forget(name)
            self._presence.refresh()
        elif member.info.state is ClusterState.STOPPING:
            await self._end(member, f"The cluster {name} was killed on request")
        elif member.connection.state is ClusterState.STARTING:
            if member.has_given_up:
                await self._end(member, f"The cluster {name} was killed on request")
            else:
                self._stop_starting(member)
        elif member.info.incompatible:
            self._stop_unasked(member)
        else:
            link = await self._linking.answering(member)
            if link is None and not member.has_given_up:  # another process has just asked the cluster to stop
                return
            member.asked_to_stop = asyncio.get_running_loop().time()
            try:
                if link is None:
                    raise member.not_answering()
                await link.request("close")
            except ClusterLost:
                await self._end(member, f"The cluster {name} did not respond and was killed")

    async def close_cluster(self, name: str) -> str:
        """Close a cluster and wait for its end; see ``Fleet.close_cluster``."""
        member = self._roster.find(name)
        told = member.info.state is ClusterState.STOPPING and member.connection.message
        if member.info.state is not ClusterState.STOPPING or told:
            await self.stop_cluster(name)
        ends = {ClusterState.FAILED, ClusterState.LOST} | (set() if told else {ClusterState.STOPPING})
        members = self._roster.members

        def has_spoken() -> bool:
            known = members.get(name)
            return known is None or (bool(known.connection.message) and known.connection.state in ends)

        await self._roster.wait_for(has_spoken)
        if name not in members:
            return ""
        connection = members[name].connection
        if connection.state is ClusterState.STOPPING:
            raise Unavailable(
                f"The cluster {name} does not end: {connection.message}. Close it again to kill it immediately"
            )
        connections.forget(name)
        self._presence.refresh()
        return "" if connection.state is ClusterState.LOST else connection.message

    async def stop_run(self, run_id: str, *, now: bool = False, pruned: str = "") -> None:
        """Ask a run to stop; a second call, or ``now``, kills it. Raises NotFound, or Conflict if it has ended.

        If the run's cluster does not respond, the cluster is killed, and its card stays.
        """
        info = self._hub.info(run_id)
        if info.state.is_final:
            raise Conflict(f"Only an active run can be stopped, but {run_id} is {info.state.value}")
        member = self._roster.find(info.cluster)
        if member.info.incompatible:
            raise Unavailable(member.info.incompatible)
        link = await self._linking.answering(member)
        try:
            if link is None:
                raise member.not_answering()
            await link.request("stop_run", run_id=run_id, now=now, **({"pruned": pruned} if pruned else {}))
        except ClusterLost:
            if not member.has_given_up:
                raise
            why = f"The cluster {member.name} did not respond when its run was stopped, and was killed"
            await self._end(member, why, keep=True)

    # -- inside -------------------------------------------------------------------------------------------------

    def _stop_starting(self, member: Member) -> None:
        """Signal a cluster that does not accept requests yet, and mark it as stopping in its file for other viewers."""
        member.check_is_here()
        member.asked_to_stop = asyncio.get_running_loop().time()
        member.connection.state = member.info.state = ClusterState.STOPPING
        connections.write(member.connection)
        _signal(member.connection, signal.SIGTERM)
        self._roster.tell()

    def _stop_unasked(self, member: Member) -> None:
        """Signal a cluster of an incompatible version.

        Clusters of every version then shut down cleanly and update their file.
        """
        member.check_is_here()
        member.asked_to_stop = asyncio.get_running_loop().time()
        member.info.state = ClusterState.STOPPING
        _signal(member.connection, signal.SIGTERM)
        self._roster.tell()

    async def _end(self, member: Member, why: str, *, keep: bool = False) -> None:
        """Kill a cluster's processes directly. With ``keep``, the cluster stays listed as lost.

        Raises Unavailable if the processes are on another machine.
        """
        member.check_is_here()
        if member.ending is None:
            member.ending = self._background.begin(self._end_directly(member, why, keep))
        await asyncio.shield(member.ending)

    async def _end_directly(self, member: Member, why: str, keep: bool) -> None:
        connection = member.connection
        logger.warning("%s", why)
        member.info.state, member.info.silent_s = ClusterState.STOPPING, 0.0
        self._roster.tell()
        try:
            await self._linking.end(member)
            await off_loop(lambda: ending.end_directly(connection))
            await self._presence.mark_lost(member, why)
            if keep:
                connection.state, connection.message = ClusterState.LOST, why
                connections.write(connection)
                member.connection = connection
            else:
                connections.forget(member.name)
        finally:
            member.ending = None
        if keep:
            self._presence.settle(member)
        else:
            self._presence.gone(member)


def _signal(connection: Connection, number: int) -> None:
    if connection.is_alive and not connection.is_elsewhere and connection.pid != connection.started_by:
        with contextlib.suppress(ProcessLookupError):
            os.kill(connection.pid, number)
