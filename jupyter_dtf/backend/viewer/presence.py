"""Tracks through connection files which clusters exist, and handles clusters whose process has ended."""

from __future__ import annotations

import asyncio
import logging

from ...errors import Unavailable
from ...schema.api import ClusterState
from ..machine.oom import OomWatch
from ..records.hub import Hub
from . import connections, ending, lost_runs, starting
from .background import Background, off_loop
from .connections import Connection
from .linking import Linking
from .member import Member, described
from .roster import Roster

logger = logging.getLogger(__name__)

AGAIN_S = 0.5
MOST_S = 30.0
"""The first and the longest pause before files that could not be read are read again."""


class Presence:
    """Adds clusters to the ``roster`` and removes them. Runs of lost clusters are marked in ``hub``."""

    def __init__(self, roster: Roster, linking: Linking, hub: Hub, background: Background) -> None:
        self._roster = roster
        self._linking = linking
        self._hub = hub
        self._background = background
        self._oom = OomWatch()
        self._unreadable: dict[str, str] = {}
        self._is_blind = False
        self._wait_s = AGAIN_S
        self._again: asyncio.TimerHandle | None = None

    def close(self) -> None:
        self._oom.close()
        if self._again is not None:
            self._again.cancel()

    def refresh(self) -> None:
        """Read the connection files again. A cluster whose file cannot be read does not change."""
        try:
            found, unreadable = connections.listing()
            self._is_blind = False
        except Unavailable as error:
            self._is_blind = True
            found, unreadable = {}, dict.fromkeys(self._roster.members, str(error))
        for connection in found.values():
            self._update(self.welcome(connection), connection)
        for name in set(self._roster.members) - set(found) - set(unreadable):
            self.gone(self._roster.members[name])
        self._look_again(unreadable)

    def may_exist(self, name: str) -> bool:
        """Return whether an unknown cluster with that name may exist, because its connection file cannot be read."""
        return self._is_blind or name in self._unreadable

    def _look_again(self, unreadable: dict[str, str]) -> None:
        """Read unreadable files again later, because nothing may signal when they have become readable."""
        for why in dict.fromkeys(why for name, why in unreadable.items() if name not in self._unreadable):
            logger.warning("%s. This is retried", why)
        self._unreadable = unreadable
        if not unreadable and not self._is_blind:
            self._wait_s = AGAIN_S
        elif self._again is None:
            self._again = asyncio.get_running_loop().call_later(self._wait_s, self._look_again_now)
            self._wait_s = min(2 * self._wait_s, MOST_S)

    def _look_again_now(self) -> None:
        self._again = None
        self.refresh()

    def welcome(self, connection: Connection) -> Member:
        """Return the member for a connection file: a new one if the file is new or belongs to another cluster."""
        member = self._roster.members.get(connection.name)
        if member is not None and member.connection.created != connection.created:
            self.gone(member)
            member = None
        if member is None:
            member = self._roster.members[connection.name] = Member(connection)
        return member

    def settle(self, member: Member) -> None:
        """Show a cluster as lost or failed; its card stays until the user dismisses it."""
        member.info = described(member.connection)
        member.process_end.forget()
        self._background.begin(self._linking.end(member))
        if member.connection.state is ClusterState.LOST:
            self._background.begin(self.mark_lost(member, member.connection.message))
        self._roster.tell()

    def gone(self, member: Member) -> None:
        """Remove a cluster that its user has ended."""
        if self._roster.holds(member):
            del self._roster.members[member.name]
        member.process_end.forget()
        self._background.begin(self._linking.end(member))
        why = member.connection.message if member.connection.state is ClusterState.LOST else ""
        self._background.begin(self.mark_lost(member, why or f"The cluster {member.name} was closed"))
        self._roster.tell()

    async def mark_lost(self, member: Member, why: str) -> None:
        """Mark a cluster's unfinished runs as lost."""
        connection = member.connection
        await off_loop(lambda: lost_runs.mark_lost(self._hub, connection, why))

    def _update(self, member: Member, connection: Connection) -> None:
        changed = connection != member.connection or not member.process_end.is_watched
        member.connection = connection
        if member.ending is not None or member.dying is not None:
            return
        if connection.state in (ClusterState.FAILED, ClusterState.LOST):
            if connection.state is not member.info.state:
                self.settle(member)
            return
        if not connection.is_alive:
            if connection.state is ClusterState.STOPPING:  # it was asked to stop, but could not remove its file
                connections.forget(member.name)
                self.gone(member)
            else:
                member.dying = self._background.begin(self._died(member))
            return
        if connection.refusal:  # the cluster is still shown and can be stopped
            if member.asked_to_stop is None or connection.state is ClusterState.STOPPING:
                member.info = described(connection)
        elif connection.state is ClusterState.RUNNING:
            if member.link is None and member.linking is None:
                self._linking.begin(member)
        elif member.link is None:
            member.info = described(connection)
        else:
            member.info.message = connection.message
        member.process_end.watch(connection, self.refresh)  # then, its file may say why it ended
        if changed:
            self._roster.tell()

    async def _died(self, member: Member) -> None:
        """Handle the unexpected end of a cluster process."""
        connection = member.connection
        try:
            lost = await self._note_death(member, connection)
        finally:
            member.dying = None
        if not self._roster.holds(member):
            return
        if lost is None:  # the user has stopped the cluster in the meantime
            self.gone(member)
        else:
            member.connection = lost
            self.settle(member)
        await off_loop(lambda: ending.end_rest(connection))

    async def _note_death(self, member: Member, connection: Connection) -> Connection | None:
        """Record how a cluster ended in its runs and in its file. Returns the result of ``connections.mark_lost``."""
        await self._linking.end(member)
        how = await off_loop(lambda: starting.how_it_died(connection))
        if "status" not in how and (memory := self._oom.explain(connection.pid)):
            how = f"was killed {memory}"
        message = f"The cluster {member.name} {how}"
        logger.warning("%s", message)
        await self.mark_lost(member, message)
        try:
            return await off_loop(lambda: connections.mark_lost(connection, message))
        except (OSError, Unavailable):  # for example, the disk is full: other viewers will detect the end themselves
            logger.exception("The end of a cluster could not be recorded in its file: %s", message)
            connection.state, connection.message = ClusterState.LOST, message
            return connection
