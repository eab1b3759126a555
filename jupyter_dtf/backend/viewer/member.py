"""One cluster in a viewer's fleet."""

from __future__ import annotations

import asyncio
import os

from ...errors import ClusterLost, Unavailable
from ...schema.api import ClusterInfo, ClusterState
from ..machine.processes import stat_of
from . import connections
from .connections import Connection
from .link import GIVE_UP_S, SILENT_S, Link, not_answering
from .process_end import ProcessEnd

REACH_S = 30.0
"""How long connecting to a cluster may take. On a machine with more processes than cores, 8 s was once too short."""
CLOSE_LIMIT_S = 25.0
"""A cluster that responds but has not ended this long after it was asked to close is killed."""


class Member:
    """One cluster: its connection file, its last reported info, the link to it, and whether it responds."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.info = described(connection)
        self.link: Link | None = None
        self.linking: asyncio.Task[None] | None = None
        self.ending: asyncio.Task[None] | None = None
        """The task that is killing the cluster directly, if any."""
        self.dying: asyncio.Task[None] | None = None
        """The task that determines how the cluster process died, if any."""
        self.asked_to_stop: float | None = None
        """When this viewer asked the cluster to stop; None if it has not."""
        self.process_end = ProcessEnd()
        self.reaching_since: float | None = None
        """When the first attempt to open the link was made, if all attempts have failed so far."""
        self._stopped_since: float | None = None

    @property
    def name(self) -> str:
        return self.connection.name

    @property
    def is_linked(self) -> bool:
        """Whether requests can be made and all past events have arrived."""
        return self.link is not None and self.linking is None

    @property
    def has_given_up(self) -> bool:
        """Whether the cluster has been silent for so long that callers should stop waiting for it."""
        limit_s = GIVE_UP_S if self.link is not None else REACH_S
        return self.info.silent_s > limit_s or (self.info.silent_s > 0 and self._is_stopped())

    def answering_link(self) -> Link:
        """Return the link for a request.

        Raises:
            Unavailable: If the cluster's version is incompatible.
            ClusterLost: If the cluster does not respond or is not connected.
        """
        if self.info.incompatible:
            raise Unavailable(self.info.incompatible)
        if self.has_given_up:
            raise self.not_answering()
        if self.link is None:
            raise ClusterLost(f"The cluster {self.name} does not accept requests now. It is {self.info.state.value}")
        return self.link

    def not_answering(self) -> ClusterLost:
        """Return the error for requests to the cluster while it does not respond."""
        if self.connection.is_elsewhere:
            return ClusterLost(
                f"The cluster {self.name} has not responded for {self.info.silent_s:.0f} s. {_is_elsewhere(self)}: it "
                "may be busy or frozen, out of reach from here, or gone"
            )
        return not_answering(self.name, self.info.silent_s)

    def check_is_here(self) -> None:
        """Raise Unavailable if the cluster's processes cannot be ended because they are on another machine."""
        if self.connection.is_elsewhere:
            raise Unavailable(
                f"The cluster {self.name} can only be ended on its own machine, as it does not respond. "
                f"{_is_elsewhere(self)}: stop it there. If it no longer exists, remove {connections.path_of(self.name)}"
            )

    def look(self, patience_s: float = SILENT_S) -> bool:
        """Check whether the cluster has responded within ``patience_s`` seconds. Returns whether its info changed."""
        before = self.info.silent_s, self.info.state
        self.info.silent_s = self._silent_s(patience_s)
        is_there = self.connection.state is ClusterState.RUNNING
        if self.info.silent_s and is_there and self.info.state is ClusterState.STARTING:  # it was only assumed
            self.info.state = ClusterState.RUNNING
        return (self.info.silent_s, self.info.state) != before

    def _silent_s(self, patience_s: float) -> float:
        now = asyncio.get_running_loop().time()
        state = self.info.state
        if state in (ClusterState.FAILED, ClusterState.LOST):
            return 0.0
        if self.link is not None:
            unheard_s = self.link.unheard_s
            return round(unheard_s, 1) if unheard_s > patience_s else 0.0
        since = self.reaching_since
        if since is None:  # starting or ending: the cluster counts as silent only if its process is stopped
            self._stopped_since = (self._stopped_since or now) if self._is_stopped() else None
            since = self._stopped_since
        silent_s = now - since if since is not None else 0.0
        if self.info.silent_s:
            patience_s = 0.0  # already reported as silent, until it responds
        return round(silent_s, 1) if silent_s > patience_s else 0.0

    def _is_stopped(self) -> bool:
        if self.connection.pid == os.getpid() or self.connection.is_elsewhere:
            return False
        stat = stat_of(self.connection.pid)
        return stat is not None and stat.is_stopped

    @property
    def takes_too_long(self) -> bool:
        """Whether the cluster has not stopped in time after this viewer asked it to, and can be killed from here."""
        if self.asked_to_stop is None or self.ending is not None or self.connection.is_elsewhere:
            return False
        age = asyncio.get_running_loop().time() - self.asked_to_stop
        return self.has_given_up or age > CLOSE_LIMIT_S


def _is_elsewhere(member: Member) -> str:
    return f"It was started on {member.connection.where.host}, which is another machine or container"


def described(connection: Connection) -> ClusterInfo:
    """Return the info of a cluster before it has reported anything itself."""
    message = connection.message
    if connection.state is ClusterState.LOST:
        log = connections.log_of(connection.name)
        message += (
            f". Its runs are lost; the files that they have saved are in their directories. Dismiss the cluster here "
            f"or with `jupyter dtf stop {connection.name}`, then start it again. The cluster's output is in {log}"
        )
    seems_to_start = connection.state is ClusterState.RUNNING and not connection.refusal
    return ClusterInfo(
        name=connection.name,
        kind=connection.kind,
        state=ClusterState.STARTING if seems_to_start else connection.state,
        message=message,
        jobs=dict(connection.jobs),
        created=connection.created,
        incompatible=connection.refusal,
    )
