"""What a kind of Dask cluster is to everybody else: the contract ``Kind``.

A kind is a class with an entry point of its name in the group ``jupyter_dtf.kinds``, in this package or in another one.
Nobody else knows of any kind but by these attributes and methods. ``jupyter_dtf.testing.kinds`` has the contract as
tests; docs/kinds.md has an example.
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
"""What batch systems, Kubernetes and the agents of clouds send to what is to go, or what they can be told to send."""
NOTICE = "dtf_notice"
"""The operation by which a host is told that its machine is to go; it answers whether there are tasks yet."""
SLOTS = "dtf_tasks"
"""A resource of a Dask worker: how many of a run's tasks are for it, beside what other workers have of it."""

ENDED = "ended"
"""The step of a ``ComingHost`` that will not come, and is not tried again."""


class Kind(ABC):
    """One kind of cluster. An instance is made without arguments whenever a process needs one, and holds no state.

    Only ``create`` is called in the cluster process alone. The rest is called by whoever shows a form or checks a
    request (the Jupyter server, kernels, the command line), in any thread and at every keystroke: it answers at once,
    asks no other machine, and imports neither Dask nor TensorFlow. So does the module of the class.
    """

    kind: str
    """Its name, and that of its entry point: lower-case letters, digits and hyphens. ``dtf.Cluster(backend=kind)``."""
    title: str
    """What a form calls it, such as ``This machine``."""
    is_here: bool = False
    """Whether its hosts are on the machine of the cluster process, and nowhere else.

    Then TensorFlow is imported (the warm process is started) while Dask's scheduler starts. Of all other kinds each
    host starts a warm process on its machine when it gets there, which is right for this machine too, and later.
    """
    scheduler_is_elsewhere: bool = False
    """Whether its scheduler runs on another machine, by itself. What ``create`` returns is an ``ElsewhereCluster``."""
    tell_start: Callable[[str], None] = staticmethod(lambda words: None)
    """For ``create``, where it takes a while: says in words what is waited for, which is shown with the cluster."""
    has_more_fields: bool = False
    """Whether ``more_fields`` may have some: options that are not among ``fields`` are refused there, not before."""

    is_guest: bool = False
    """Whether the scheduler and its workers are somebody else's: used, never started, scaled or ended, and left as they
    were. What ``create`` returns is then a connection with Dask's names, not a cluster (``address``).
    """

    def lacks(self) -> str:
        """What is missing to start one here, in words; empty when nothing is. Raises nothing."""
        return ""

    def fields(self) -> list[FieldInfo]:
        """The options, as a form shows them: their names, types, defaults and limits. Raises nothing.

        Forms in the browser, keyword arguments in Python and ``--option`` of the command line are made of these, and
        every option is checked against them before it gets to the methods below. None has the name of a field of
        ClusterRequest.
        """
        return []

    def more_fields(self, options: Mapping[str, Any]) -> list[FieldInfo]:
        """Options that are known once others are given, such as what a gateway at an address offers.

        Of all but ``create`` this alone may ask another machine, for a few seconds at most. It is asked for with a
        preview, and by ``create`` itself (``registry.check_more``). ``options``: every one of ``fields``, checked.
        Raises InvalidInput, with the field that is to blame.
        """
        return []

    @abstractmethod
    async def create(self, options: Mapping[str, Any], security: Any, directory: Path) -> Any:
        """A started ``distributed.deploy.Cluster`` (asynchronous), its scheduler up, with no worker yet.

        Called once, on the event loop of the cluster process. It is told ``scale(n)`` at once and whenever ``hosts``
        has changed, and is closed at the end (``await close()``); ``worker_spec`` says how many workers were asked for.

        ``options``: every one of ``fields``, checked. ``security``: a ``distributed.Security`` with the certificates of
        this cluster, for the scheduler and its workers; nobody without them may join. Where the scheduler has others,
        the cluster's ``security`` is what it is reached with. ``directory``: private, on this
        machine, and removed with the cluster; what is written there may be secret.

        Its processes inherit this process's environment: those on this machine are found by it when the cluster ends
        in disorder. Neither its scheduler nor its workers listen for HTTP where the kind can have it so
        (``dask_http``); of what does, the port is closed later.

        Where its hosts take a while to come, the cluster may have a method ``watch_hosts(tell)``: from then on it calls
        ``tell(hosts)`` on the event loop, with every host that was asked for as a ``ComingHost``, whenever one of them
        has come further or has failed. That is shown, and a run waits for those that have not failed.

        A worker with the resource ``SLOTS`` gets so many of a run's tasks where others get one.

        Raises what it likes: the cluster has failed then, and a DtfError's message, or ``Type: message`` of any other,
        is what the person is shown. What has been started until then is the kind's to end.
        """

    @abstractmethod
    def hosts(self, options: Mapping[str, Any], jobs: Mapping[str, int]) -> int:
        """How many Dask workers a cluster of these jobs has, at least 1. Raises InvalidInput for what cannot be.

        Called in the cluster process, too: when it starts and whenever its jobs have changed.
        """

    def promised(self, options: Mapping[str, Any]) -> list[HostDesign]:
        """The hosts that a cluster with these options has, as far as that is known beforehand; by default it is not.

        The names are those that the Dask workers will have. Raises InvalidInput for options that contradict each other
        (``field="options.NAME"``). Where no hosts are promised, a drawing is checked when they are there.
        """
        return []

    def task_defaults(self, options: Mapping[str, Any]) -> TaskDefaults:
        """What these options have for every task, where a run does not say otherwise. Raises nothing."""
        return TaskDefaults()

    def script(self, options: Mapping[str, Any]) -> str:
        """What is sent to a batch system for one host, for a person to read; by default there is no such thing.

        It is asked for with a preview and may import Dask. Raises InvalidInput.
        """
        return ""
