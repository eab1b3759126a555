"""The settings that the cluster process passes to the controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ...schema.cluster_request import ClusterRequest
from ..machine.visibility_mark import Mark
from ..planning.launch_plan import HostLayout
from ..planning.task_defaults import TaskDefaults

ALONE_S = 60.0
"""The default of ``alone_s``: long enough for an interrupted link to be reconnected."""


class ControllerSettings(msgspec.Struct):
    """The fixed settings of one cluster."""

    request: ClusterRequest
    """The request that the cluster was started with, with its name filled in."""
    token: str
    """The name of this cluster's directories on its hosts' machines."""
    runs: Mark
    """The mark that shows hosts whether they can access the parent of the run directories.

    The cluster process creates the mark, because the scheduler may be on a machine without that directory.
    """
    created: float
    defaults: TaskDefaults = msgspec.field(default_factory=TaskDefaults)
    """Defaults for tasks, from the kind's options."""
    scope: str = ""
    """The suffix of all names added to an external scheduler; empty for our own scheduler."""
    abandon: Callable[[Any], Awaitable[None]] | None = None
    """For a scheduler on another machine: shuts it down after the cluster process is gone."""
    alone_s: float = ALONE_S
    """How long the cluster process may be gone before the scheduler is shut down."""

    @property
    def name(self) -> str:
        return self.request.name

    @property
    def runs_dir(self) -> str:
        return self.runs.directory

    @property
    def layout(self) -> HostLayout:
        return HostLayout(self.request.hosts, self.request.tasks)
