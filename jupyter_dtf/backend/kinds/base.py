"""The interface of a kind of Dask cluster, ``Kind``.

A kind is a class with an entry point of its name in the group ``jupyter_dtf.kinds``, in this package or in another one.
All other code uses kinds only through these attributes and methods. ``jupyter_dtf.testing.kinds`` tests the interface;
docs/kinds.md has an example.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...schema.api import FieldInfo
from ...schema.hosts import HostDesign
from ..planning.task_defaults import TaskDefaults

NOTICES = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
"""The signals that batch systems, Kubernetes and cloud agents send, or can be configured to send, before preemption."""
NOTICE = "dtf_notice"
"""The operation that tells a host that its machine goes away; it returns whether there are still tasks."""
SLOTS = "dtf_tasks"
"""A resource of a Dask worker: how many of a run's tasks it gets, relative to other workers."""

ENDED = "ended"
"""The step of a ``ComingHost`` that has failed and will not be retried."""


class Kind(ABC):
    """One kind of cluster. Instances are created without arguments whenever a process needs one, and hold no state.

    Only ``create`` is called exclusively in the cluster process. Everything else is called by whoever shows a form or
    validates a request (the Jupyter server, kernels, the command line), in any thread and at every keystroke: it must
    return immediately, contact no other machine, and import neither Dask nor TensorFlow. The same applies to importing
    the module of the class.
    """

    kind: str
    """Its name (``dtf.Cluster(backend=kind)``) and that of its entry point: lower-case letters, digits and hyphens."""
    title: str
    """Its title in a form, such as ``This machine``."""
    is_here: bool = False
    """Whether its hosts are all on the machine of the cluster process.

    In that case TensorFlow is imported (the warm process is started) while Dask's scheduler starts. With other kinds,
    each host starts a warm process on its machine when it arrives, which would work on this machine too, but later.
    """
    scheduler_is_elsewhere: bool = False
    """Whether its scheduler runs on another machine on its own. ``create`` then returns an ``ElsewhereCluster``."""
    tell_start: Callable[[str], None] = staticmethod(lambda words: None)
    """For a slow ``create``: call it with a sentence on what is being waited for, which is shown with the cluster."""
    has_more_fields: bool = False
    """Whether ``more_fields`` may return any. Options that are not in ``fields`` are then only rejected there."""

    is_guest: bool = False
    """Whether the scheduler and its workers belong to somebody else: they are used, never started, scaled or shut down,
    and left as they were. ``create`` then returns a connection with a cluster's attributes instead of a cluster (see
    ``address``).
    """

    def missing(self) -> str:
        """Return what is missing to start one here, in words; empty if nothing is. Must not raise."""
        return ""

    def fields(self) -> list[FieldInfo]:
        """Return the options as form fields: names, types, defaults and limits. Must not raise.

        Forms in the browser, keyword arguments in Python and ``--option`` on the command line are derived from these,
        and every option is validated against them before it is passed to the methods below. No field may have the name
        of a field of ClusterRequest.
        """
        return []

    def more_fields(self, options: Mapping[str, Any]) -> list[FieldInfo]:
        """Return options that depend on others, such as what a gateway at an address offers.

        Apart from ``create``, only this method may contact another machine, for a few seconds at most. It is called for
        a preview, and by ``create`` itself (``registry.check_more``).

        Args:
            options: A validated value for each of ``fields``.

        Raises:
            InvalidInput: With the field that caused it.
        """
        return []

    @abstractmethod
    async def create(self, options: Mapping[str, Any], security: Any, directory: Path) -> Any:
        """Start and return an asynchronous ``distributed.deploy.Cluster`` with a running scheduler and no workers yet.

        Called once, on the event loop of the cluster process. ``scale(n)`` is called at once and whenever ``hosts`` has
        changed, and ``await close()`` at the end; ``worker_spec`` must have as many entries as workers were requested.

        Child processes must inherit this process's environment, by which those on this machine are found if the cluster
        does not end cleanly. If possible, neither the scheduler nor its workers should listen for HTTP (``dask_http``);
        otherwise these ports are closed later.

        If hosts take a while to start, the cluster may have a method ``watch_hosts(tell)``. From then on it must call
        ``tell(hosts)`` on the event loop whenever a host has made progress or failed, with every requested host as a
        ``ComingHost``. These are shown, and a run waits for those that have not failed.

        A worker with the resource ``SLOTS`` gets that many of a run's tasks where others get one.

        It may raise any exception, which means that the cluster has failed. The user then sees the message of a
        DtfError, or ``Type: message`` of other exceptions. The kind must clean up what it has started until then.

        Args:
            options: A validated value for each of ``fields``.
            security: A ``distributed.Security`` with this cluster's certificates for the scheduler and its workers.
                    Nobody without them may join. If the scheduler has other certificates, the returned cluster's
                    ``security`` is used to connect to it.
            directory: A private directory on this machine that is removed with the cluster; it may contain secrets.
        """

    @abstractmethod
    def hosts(self, options: Mapping[str, Any], jobs: Mapping[str, int]) -> int:
        """Return how many Dask workers a cluster with these jobs has, at least 1. Raises InvalidInput if impossible.

        Also called in the cluster process, when it starts and whenever its jobs have changed.
        """

    def expected_hosts(self, options: Mapping[str, Any]) -> list[HostDesign]:
        """Return the hosts that a cluster with these options will have, if known in advance; by default none are.

        Their names must be those of the Dask workers. If none can be named, a design is only checked once the hosts
        exist.

        Raises:
            InvalidInput: If options contradict each other (``field="options.NAME"``).
        """
        return []

    def task_defaults(self, options: Mapping[str, Any]) -> TaskDefaults:
        """Return defaults for all tasks, which a run may override, from these options. Must not raise."""
        return TaskDefaults()

    def script(self, options: Mapping[str, Any]) -> str:
        """Return what is sent to a batch system for one host, for a person to read; by default nothing.

        Called for a preview; may import Dask. Raises InvalidInput.
        """
        return ""
