"""Opens links to clusters, retries if that fails, and dispatches the messages that arrive."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from typing import Any

import msgspec

from ...errors import ClusterLost, DtfError, NotFound
from ...schema.api import ClusterState, read_cluster
from ...schema.base import convert
from ...schema.run import RunDescriptor, read_run
from ..records.hub import Hub
from .background import Background, off_loop
from .link import Link
from .member import Member, described
from .roster import Roster

logger = logging.getLogger(__name__)

_RETRY_S = (0.1, 0.5, 1.0, 2.0, 5.0)


class _VersionRefusal(Exception):
    """Raised if the cluster and this version share no protocol. Attaching is retried after any other exception."""


class Linking:
    """Maintains a link to every running cluster. ``hub`` receives the clusters' runs."""

    def __init__(self, roster: Roster, hub: Hub, background: Background) -> None:
        self._roster = roster
        self._hub = hub
        self._background = background
        self._is_over = False

    def begin(self, member: Member) -> None:
        """Start connecting to a cluster, retrying until it responds."""
        member.linking = self._background.begin(self._connect(member))

    async def end(self, member: Member) -> None:
        """Disconnect from a cluster."""
        if member.linking is not None and member.linking is not asyncio.current_task():
            member.linking.cancel()
            member.linking = None
        link, member.link = member.link, None
        if link is not None:
            await link.close()

    async def end_all(self) -> None:
        """Disconnect from all clusters permanently."""
        self._is_over = True
        for member in list(self._roster.members.values()):
            await self.end(member)

    async def answering(self, member: Member) -> Link | None:
        """Wait for the link to a cluster. Returns None if the cluster does not respond or cannot be used.

        Raises NotFound if the cluster is gone.
        """
        await self._roster.wait_for(
            lambda: (
                not self._roster.holds(member)
                or member.connection.state is not ClusterState.RUNNING
                or member.is_linked
                or member.has_given_up
                or member.info.incompatible
            )
        )
        if not self._roster.holds(member):
            raise NotFound(f"There is no cluster named {member.name!r}")
        return member.link if member.is_linked and not member.has_given_up else None

    async def _connect(self, member: Member) -> None:
        for wait_s in itertools.chain(_RETRY_S, itertools.repeat(_RETRY_S[-1])):
            if not self._roster.holds(member):
                return
            try:
                await off_loop(_import_dask)  # takes half a second, which would block the loop
                await self._attach(member)
            except _VersionRefusal as error:
                logger.warning("%s", error)
                member.linking, member.reaching_since = None, None
                member.info = described(member.connection)
                member.info.state, member.info.incompatible = ClusterState.RUNNING, str(error)
                self._roster.tell()
                return
            except ClusterLost as error:
                logger.info("%s", error)
            except Exception as error:  # whatever the cause, the next attempt may succeed
                unexpected = not isinstance(error, DtfError)
                logger.warning("Attaching to the cluster %s is retried: %s", member.name, error, exc_info=unexpected)
            else:
                member.linking = None
                self._roster.tell()
                return
            await asyncio.sleep(wait_s * random.uniform(0.7, 1.3))

    async def _attach(self, member: Member) -> None:
        """Open the link and wait until all past events have arrived.

        Raises ClusterLost, and _VersionRefusal if the cluster and this version have no protocol in common.
        """
        loop = asyncio.get_running_loop()
        member.reaching_since = member.reaching_since or loop.time()
        attached: asyncio.Future[None] = loop.create_future()
        link = member.link = await Link.open(
            member.connection,
            lambda message: self._on_message(member, message, attached),
            lambda: self._on_lost(member, attached),
            after=await off_loop(lambda: self._known(member)),
        )
        try:
            await attached
        except _VersionRefusal:
            raise
        except BaseException:  # this viewer is shutting down
            if member.link is link:
                member.link = None
            await link.close()
            raise
        member.reaching_since = None

    def _known(self, member: Member) -> dict[str, int]:
        """Return the number of the last known event of each run of a cluster, keyed by run.

        Known events are not sent again. If the store fails, return an empty dict: events that are sent again do no
        harm.
        """
        known = {}
        try:
            for run in self._hub.runs(deleted=None):
                if member.connection.is_cluster_of(run):
                    known[run.id] = self._hub.next_seq(run.id) - 1
        except Exception as error:
            unexpected = not isinstance(error, DtfError)
            words = "The known events of the cluster %s cannot be read, so all events are requested again: %s"
            logger.warning(words, member.name, error, exc_info=unexpected)
            return {}
        return known

    def _on_message(self, member: Member, message: dict[str, Any], attached: asyncio.Future[None]) -> None:
        try:
            match message["op"]:
                case "pong":
                    pass
                case "event":
                    self._hub.apply(message["run"], message["seq"], message["data"])
                case "run":
                    self._hub.add_run(convert(message["info"], RunDescriptor))
                case "summary":
                    self._hub.add_summary(read_run(message["info"]))
                case "cluster":
                    silent_s, member.info = member.info.silent_s, read_cluster(message["info"])
                    member.info.silent_s = silent_s if member.link is None else round(member.link.silent_s, 1)
                    self._roster.tell()
                case "attached":
                    if not attached.done():
                        attached.set_result(None)
        except (DtfError, msgspec.MsgspecError):
            logger.exception("A message from the cluster %s could not be processed", member.name)

    def _on_lost(self, member: Member, attached: asyncio.Future[None]) -> None:
        refusal = member.link.refusal if member.link is not None else ""
        member.link = None
        if refusal and not attached.done():
            attached.set_exception(_VersionRefusal(refusal))
        elif not attached.done():  # the link was still being attached; attaching will be retried
            attached.set_exception(ClusterLost(f"The cluster {member.name} closed the connection"))
        elif self._roster.holds(member) and not self._is_over:
            self.begin(member)


def _import_dask() -> None:
    import distributed  # noqa: F401
