"""The interface of a kind of Dask cluster, ``Kind``.

A kind is a class that this package or another one registers, under the kind's name, as an entry point of the group
``jupyter_dtf.kinds``. All other code uses kinds only through the attributes and methods of ``Kind``.
``jupyter_dtf.testing.kinds`` tests the interface; docs/kinds.md has an example.
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
"""The operation that notifies a host that its machine is going away; it returns whether tasks remain."""
SLOTS = "dtf_tasks"
"""The Dask resource that determines how many of a run's tasks a worker gets, relative to other workers."""

ENDED = "ended"
"""The step of a ``ComingHost`` that has failed and will not be retried."""


class Kind(ABC):
    """One kind of cluster. Instances are created without arguments whenever a process needs one, and hold no state.

    Only ``create`` is called exclusively in the cluster process. The other methods are called by every process that
    shows a form or validates a request (the Jupyter server, kernels, the command line), in any thread and at every
    keystroke: they must return immediately, contact no other machine, and import neither Dask nor TensorFlow. The same
    applies to importing the module of the class.
    """

    kind: str
    """The name of the kind (``dtf.Cluster(backend=kind)``) and its entry point: lower-case letters, digits, hyphens."""
    title: str
    """The title of the kind in a form, such as ``This machine``."""
    is_here: bool = False
    """Whether all hosts are on the machine of the cluster process.

    In that case TensorFlow is imported (the warm process is started) while Dask's scheduler starts. With other kinds,
    each host starts a warm process on its machine when it joins; this would also work on this machine, but would take
    longer.
    """
    scheduler_is_elsewhere: bool = False
    """Whether the scheduler runs independently on another machine. ``create`` then returns an ``ElsewhereCluster``."""
    tell_start: Callable[[str], None] = staticmethod(lambda words: None)
    """Called by a slow ``create`` with a sentence that says what the start is waiting for. The sentence is shown with
    the cluster."""
    has_more_fields: bool = False
    """Whether ``more_fields`` may return fields. If so, options that are not in ``fields`` are accepted at first, and
    validated against ``more_fields`` later."""

    is_guest: bool = False
    """Whether the scheduler and its workers belong to somebody else: they are used, but never started, scaled, shut
    down or changed permanently. ``create`` then returns a connection with a cluster's attributes instead of a cluster
    (see ``address``).
    """

    def missing(self) -> str:
        """Return the reason why no cluster can be started here, or an empty string if one can. Must not raise."""
        return ""

    def fields(self) -> list[FieldInfo]:
        """Return the options as form fields: names, types, defaults and limits. Must not raise.

        Forms in the browser, keyword arguments in Python and ``--option`` on the command line are derived from these,
        and every option is validated against them before it is passed to the methods below. No field may have the name
        of a field of ClusterRequest.
        """
        return []

    def more_fields(self, options: Mapping[str, Any]) -> list[FieldInfo]:
        """Return fields for options that depend on other options, such as those that a gateway at an address offers.

        Apart from ``create``, only this method may contact another machine, for a few seconds at most. It is called for
        a preview. ``create`` must itself validate the options against these fields (``registry.check_more``).

        Args:
            options: A validated value for each of ``fields``.

        Raises:
            InvalidInput: If an option is invalid; ``field`` names the option.
        """
        return []

    @abstractmethod
    async def create(self, options: Mapping[str, Any], security: Any, directory: Path) -> Any:
        """Start and return an asynchronous ``distributed.deploy.Cluster`` with a running scheduler and no workers yet.

        Called once, on the event loop of the cluster process. ``scale(n)`` is called immediately afterwards and
        whenever the result of ``hosts`` changes, and ``await close()`` at the end; ``worker_spec`` must have one entry
        for each requested worker.

        Child processes must inherit this process's environment: if the cluster does not end cleanly, those on this
        machine are found by it. If possible, neither the scheduler nor its workers should listen for HTTP
        (``dask_http``); otherwise these ports are closed later.

        If hosts take a while to start, the cluster may have a method ``watch_hosts(tell)``. Once this has been called,
        the cluster must call ``tell(hosts)`` on the event loop whenever a host has made progress or failed. The list
        replaces the previous one. It must have a ``ComingHost`` for each host that has failed, and for each host that a
        run should wait for. Hosts that have joined may be in the list, too, and are ignored. All others are shown, and
        a run waits for those that have not failed.

        A worker with the resource ``SLOTS`` set to n gets n of a run's tasks for each task that other workers get.

        If this method raises an exception, the cluster has failed, and the user sees the message of a DtfError, or
        ``Type: message`` for other exceptions. The method must first clean up everything that it has started.

        Args:
            options: A validated value for each of ``fields``.
            security: A ``distributed.Security`` with this cluster's certificates for the scheduler and its workers.
                    Processes without them must not be able to join. If the scheduler has other certificates, the
                    returned cluster's ``security`` is used to connect to it.
            directory: A private directory on this machine that is removed with the cluster; it may contain secrets.
        """

    @abstractmethod
    def hosts(self, options: Mapping[str, Any], jobs: Mapping[str, int]) -> int:
        """Return the number of Dask workers of a cluster with these jobs, at least 1. Raises InvalidInput.

        Also called in the cluster process, when it starts and whenever its jobs have changed.
        """

    def expected_hosts(self, options: Mapping[str, Any]) -> list[HostDesign]:
        """Return the hosts that a cluster with these options will have, if known in advance; by default none.

        Their names must be those of the Dask workers. If no hosts are returned, a design is checked only once the hosts
        exist.

        Raises:
            InvalidInput: If options contradict each other (``field="options.NAME"``).
        """
        return []

    def task_defaults(self, options: Mapping[str, Any]) -> TaskDefaults:
        """Return the defaults that these options set for all tasks, which a run may override. Must not raise."""
        return TaskDefaults()

    def script(self, options: Mapping[str, Any]) -> str:
        """Return the script that a batch system receives for one host, to be shown to the user; by default empty.

        Called for a preview; may import Dask. Raises InvalidInput.
        """
        return ""
