"""What the cluster process tells the controller when it installs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ...schema.cluster_request import ClusterRequest
from ..machine.mark import Mark
from ..planning.launch_plan import Drawing
from ..planning.task_defaults import TaskDefaults

ALONE_S = 60.0
"""A link that is cut for a while comes back before."""


class ControllerSettings(msgspec.Struct):
    """Of one cluster, for as long as it lives."""

    request: ClusterRequest
    """What the cluster was started with, its name filled in."""
    token: str
    """Names this cluster's files on the machines of its hosts."""
    runs: Mark
    """Of the parent of the runs' directories, made where it is: the scheduler may be on another machine."""
    created: float
    defaults: TaskDefaults = msgspec.field(default_factory=TaskDefaults)
    """Of the kind's options."""
    scope: str = ""
    """What the names of all that is put into the scheduler end in, where it is somebody else's; empty: it is ours."""
    abandon: Callable[[Any], Awaitable[None]] | None = None
    """Where the scheduler is on another machine: what ends it once the cluster process is no more."""
    alone_s: float = ALONE_S
    """How long that one may be gone before."""

    @property
    def name(self) -> str:
        return self.request.name

    @property
    def runs_dir(self) -> str:
        return self.runs.directory

    @property
    def drawing(self) -> Drawing:
        return Drawing(self.request.hosts, self.request.tasks)
