"""``ClusterHandle``: inspecting, scaling and closing a cluster that is known by its name."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import warnings
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from ..backend.planning import check_design
from ..backend.planning.launch_plan import devices_of
from ..errors import DtfError, InvalidInput, NotFound, Unavailable
from ..schema import run_names
from ..schema.api import ClusterInfo, ClusterState
from ..schema.arguments import check_path, check_seconds, is_number
from ..schema.cluster import ClusterSpec, as_jobs
from ..schema.design import Design
from . import dask_client, display_hooks, notebook_cluster, own_modules, wording
from .dashboard import dashboard_url
from .runs_frame import Runs
from .session import Session, session

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

    from ..backend.viewer.fleet import Fleet

Held = TypeVar("Held", bound="ClusterHandle")


class ClusterHandle:
    """The part of ``Cluster`` that inspects, changes and ends a cluster, but does not run anything on it."""

    _name: str
    _session: Session

    @classmethod
    def _held(cls: type[Held], name: str) -> Held:
        self = cls.__new__(cls)
        self._name = name
        self._session = session()
        return self

    # -- inspection ---------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the cluster, as in ``dtf.connect(name)`` and ``jupyter dtf stop NAME``."""
        return self._name

    @property
    def info(self) -> ClusterInfo:
        """The cluster's state, jobs and hosts, with the load of each host.

        Raises:
            NotFound: If the cluster is gone.
        """
        return self._session.do(lambda fleet: fleet.cluster(self._name))

    @property
    def status(self) -> str:
        """The state of the cluster: ``starting``, ``running``, ``stopping``, ``stopped``, ``failed`` or ``lost``."""
        try:
            return self.info.state.value
        except NotFound:
            return ClusterState.STOPPED.value

    @property
    def jobs(self) -> dict[str, int]:
        """The number of tasks of each job."""
        return dict(self.info.jobs)

    @property
    def spec(self) -> ClusterSpec:
        """A ``dtf.ClusterSpec`` with an endpoint for each task, reserved until the cluster is scaled or closed.

        Each run has its own endpoints (``ctx.cluster_spec``), so runs never share a port.
        """
        self.wait_ready()
        return ClusterSpec.parse(self._session.call(lambda fleet: fleet.spec(self._name)))

    @property
    def devices(self) -> list[str]:
        """The device strings of all tasks, such as ``/job:worker/task:0/device:CPU:0``.

        Waits until the hosts have connected, because their GPUs are not known before. A run with a different
        ``gpus_per_task`` has different devices.
        """
        return [device for devices in _devices_of_tasks(self.wait_placed()) for device in devices]

    @property
    def main_devices(self) -> list[str]:
        """The device on which each task computes: its first GPU, or its CPU if it has no GPU. Waits for the hosts.

        Raises:
            Unavailable: If the tasks cannot be placed on the hosts.

        Example:
            >>> first, second = cluster.main_devices
            >>> strategy = dtf.Pipeline({"encoder": first, "decoder": second})
        """
        self.wait_ready()
        info = self._session.call(lambda fleet: fleet.placed(self._name))
        return [devices[1] if len(devices) > 1 else devices[0] for devices in _devices_of_tasks(info)]

    def wait_placed(self) -> ClusterInfo:
        """Wait until the hosts have connected, and return the cluster's info with the place of each task.

        If the tasks cannot be placed on the hosts, the info contains no places.
        """
        self.wait_ready()
        with contextlib.suppress(Unavailable):
            return self._session.call(lambda fleet: fleet.placed(self._name))
        return self.info

    @property
    def runs(self) -> Runs:
        """The runs of this cluster, newest first: a list with a method ``frame()`` that returns a DataFrame."""
        created = self.info.created
        known = self._session.hub.runs()
        return Runs([info for info in known if info.cluster == self._name and info.created >= created])

    def machines(self, after: float = 0.0) -> pd.DataFrame:
        """Return the recorded load of the hosts' machines during the last day.

        Values from the last hour are 2 seconds apart. Older values are means over one minute.

        Args:
            after: Return only values recorded after this time, in seconds since 1970.

        Returns:
            A DataFrame with the columns ``host``, ``metric``, ``time`` (seconds since 1970) and ``value``. The metrics
            include those of the host and its tasks (``cpu`` in cores, ``memory_bytes``), of the whole machine
            (``machine_cpu``, ``machine_memory_bytes``, ``received_bytes_per_second``, ``sent_bytes_per_second``) and of
            each GPU (``gpu0_utilization``, from 0 to 1, and ``gpu0_memory_bytes``).

        Raises:
            InvalidInput: If ``after`` is not a number.
        """
        import pandas as pd

        if not is_number(after):
            raise InvalidInput(f"`after` must be a number of seconds since 1970, got {after!r:.200}", field="after")
        after = float(after)
        rows = [
            (series.host, series.metric, time, value)
            for series in self._session.call(lambda fleet: fleet.machines(self.name, after))
            for time, value in zip(series.time, series.value, strict=True)
        ]
        table: pd.DataFrame = pd.DataFrame(rows, columns=["host", "metric", "time", "value"])
        return table

    @property
    def dashboard_url(self) -> str:
        """The URL of Dask's own dashboard, which the Jupyter server serves. The first access enables the dashboard.

        Raises:
            Unavailable: If no Jupyter server is running; the dashboard has no port of its own.
        """
        self.wait_ready()
        self._session.call(lambda fleet: fleet.dashboard(self._name))
        return dashboard_url(self._name)

    @property
    def client(self) -> Client:
        """A ``distributed.Client`` connected to the cluster's Dask scheduler. Closing the cluster closes the client.

        It is not Dask's default client: use ``cluster.client.persist(array)`` or ``with cluster.client.as_current():``.
        """
        self.wait_ready()
        return dask_client.client_of(self._name)

    def wait_ready(self: Held, timeout_s: float | None = None) -> Held:
        """Wait until the cluster accepts runs.

        Args:
            timeout_s: The longest time to wait, in seconds. None: no limit.

        Returns:
            This cluster.

        Raises:
            Unavailable: If the cluster could not start; the message gives the reason.
            TimeoutError: If the cluster is not ready after ``timeout_s`` seconds.
        """
        limit_s = check_seconds(timeout_s, "timeout_s")
        try:
            self._session.call(lambda fleet: fleet.ready(self._name), limit_s)
        except (TimeoutError, asyncio.TimeoutError):
            raise TimeoutError(f"The cluster {self._name} is not ready after {timeout_s} s") from None
        return self

    # -- control ------------------------------------------------------------------------------------------------

    def save_design(self, path: str | os.PathLike[str]) -> Design:
        """Save the cluster, with each task on its host, as a design. Waits for the hosts first.

        If the file exists, only the cluster in it is replaced.

        Args:
            path: The ``.dtf`` file.

        Returns:
            The design.

        Raises:
            InvalidInput: If the file exists and is not a design.
            Unavailable: If the file cannot be written.
        """
        check_path(path, "path")
        self.wait_ready()
        info = self._session.call(lambda fleet: fleet.placed(self._name))
        try:
            design = Design.open(path)
        except NotFound:
            design = Design()
        design.cluster = check_design.as_drawn(info)
        design.save(path)
        return design

    def scale(self: Held, jobs: Mapping[str, int] | int) -> Held:
        """Change the number of tasks for future runs.

        Args:
            jobs: The number of tasks of each job, or only the number of workers.

        Returns:
            This cluster.

        Raises:
            InvalidInput: If ``jobs`` is invalid.

        Example:
            >>> cluster.scale({"worker": 4})
        """
        wanted = as_jobs(jobs)
        self.wait_ready()
        self._session.call(lambda fleet: fleet.scale(self._name, wanted))
        return self

    def close(self, timeout_s: float | None = 30.0) -> None:
        """End the cluster and its runs, and wait until all of its processes have ended.

        Does nothing if the cluster is already gone. If it does not respond, its processes are killed; if it has died,
        it is no longer listed as lost. If its runs could not be saved in the usual directory, a warning gives the
        directory that was used instead.

        Args:
            timeout_s: The longest time to wait, in seconds. None: no limit.

        Raises:
            Unavailable: If its runs cannot be saved anywhere (a second call closes the cluster anyway), or if it has
                not ended after ``timeout_s`` seconds.
        """
        limit_s = check_seconds(timeout_s, "timeout_s")
        notebook_cluster.forget(self._name)
        self._end(limit_s)

    def _end(self, timeout_s: float | None = 30.0) -> None:
        atexit.unregister(self._close_at_exit)
        dask_client.forget(self._name)
        try:
            word = self._session.call(lambda fleet: fleet.close_cluster(self._name), timeout_s)
        except NotFound:
            return
        except (TimeoutError, asyncio.TimeoutError):
            raise Unavailable(
                f"The cluster {self._name} did not end within {timeout_s:g} s. {self._session.do(self._last_word)}"
            ) from None
        if word:
            warnings.warn(word, stacklevel=3)

    def _last_word(self, fleet: Fleet) -> str:
        with contextlib.suppress(NotFound):
            return fleet.connection(self._name).message
        return ""

    def end_with_process(self) -> None:
        """End the cluster when this process ends. A kernel restart does not end the notebook's own cluster."""
        atexit.register(self._close_at_exit)

    def _close_at_exit(self) -> None:
        if display_hooks.here().returns(self._name):
            return
        with contextlib.suppress(DtfError, TimeoutError):
            if self.status != ClusterState.LOST.value:  # a lost cluster stays listed until a user closes it
                self._end()

    # -- internal ------------------------------------------------------------------------------------------------

    def _with_modules(self, modules: Sequence[Any], program: tuple[Any, ...]) -> tuple[Any, ...]:
        return own_modules.with_modules(self._this_one, modules, program)

    @property
    def _this_one(self) -> str:
        """A key that is unique among clusters, including later ones with the same name."""
        try:
            return f"{self._name} {self.info.created}"
        except NotFound:
            return self._name

    def _run_name(self, name: str) -> str:
        """Return ``name``, with a number appended if a live or past run already has that name."""
        return run_names.numbered(name, self._taken_names())

    def _taken_names(self) -> list[str]:
        return [info.name for info in self._session.hub.runs()]

    # -- context manager and display ----------------------------------------------------------------------------

    def __enter__(self: Held) -> Held:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if notebook_cluster.name() != self._name:  # this notebook's own cluster keeps running for later cells
            self.close()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return display_hooks.here().cluster_bundle(self)

    def __repr__(self) -> str:
        try:
            info = self.info
        except NotFound:
            return f"<Cluster {self._name}: stopped>"
        if info.incompatible:
            return f"<Cluster {info.name}: {wording.cluster_state(info)}. {info.incompatible}>"
        return f"<Cluster {info.name}: {wording.cluster_state(info)}, {info.kind}, {wording.jobs(info.jobs)}>"


def _devices_of_tasks(info: ClusterInfo) -> list[list[str]]:
    """Return the devices of each task, the CPU first."""
    gpus = {location.task: len(location.gpus) for location in info.tasks}
    return [
        devices_of(job, index, gpus.get(f"{job}:{index}", 0))
        for job, count in info.jobs.items()
        for index in range(count)
    ]
