"""``ClusterHandle``: a cluster by its name: what it is, how it changes, how it ends."""

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
from ..errors import DtfError, NotFound, Unavailable
from ..schema import run_names
from ..schema.api import ClusterInfo, ClusterState
from ..schema.cluster import ClusterSpec, as_jobs
from ..schema.design import Design
from . import chosen, dask_client, own_modules, surroundings, wording
from .dashboard import dashboard_url
from .runs_frame import Runs
from .session import Session

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

    from ..backend.viewer.fleet import Fleet

Held = TypeVar("Held", bound="ClusterHandle")


class ClusterHandle:
    """What can be known of a cluster, and done with it beside running something on it."""

    _name: str
    _session: Session

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """What it is found by: ``dtf.connect(name)``, ``jupyter dtf stop NAME``."""
        return self._name

    @property
    def info(self) -> ClusterInfo:
        """State, jobs, hosts and their load. Raises NotFound when it is gone."""
        return self._session.do(lambda fleet: fleet.cluster(self._name))

    @property
    def status(self) -> str:
        """``starting``, ``running``, ``stopping``, ``stopped``, ``failed`` or ``lost``."""
        try:
            return self.info.state.value
        except NotFound:
            return ClusterState.STOPPED.value

    @property
    def jobs(self) -> dict[str, int]:
        """Numbers of tasks per job."""
        return dict(self.info.jobs)

    @property
    def spec(self) -> ClusterSpec:
        """An endpoint for each task, reserved for as long as the cluster has these jobs.

        A run has endpoints of its own (``ctx.cluster_spec``), so that runs never meet on a port.
        """
        self.wait_ready()
        return ClusterSpec.parse(self._session.call(lambda fleet: fleet.spec(self._name)))

    @property
    def devices(self) -> list[str]:
        """The device strings of all tasks, ``/job:worker/task:0/device:CPU:0`` first; of GPUs, once there are hosts.

        A run that asks for other ``gpus_per_task`` has other ones.
        """
        info = self.info
        gpus = {seat.task: len(seat.gpus) for seat in info.tasks}
        return [
            device
            for job, count in info.jobs.items()
            for index in range(count)
            for device in devices_of(job, index, gpus.get(f"{job}:{index}", 0))
        ]

    @property
    def runs(self) -> Runs:
        """The runs of this cluster, newest first: a list, whose ``frame()`` is a DataFrame."""
        created = self.info.created
        known = self._session.hub.runs()
        return Runs([info for info in known if info.cluster == self._name and info.created >= created])

    def machines(self, after: float = 0.0) -> pd.DataFrame:
        """How the machines of its hosts were: ``host``, ``metric``, ``time`` (seconds since the epoch), ``value``.

        The last hour every two seconds, a day before it as means of a minute; with ``after``, what is newer than that.
        Among the metrics are those of the host and its tasks (``cpu`` in cores, ``memory_bytes``), of its whole machine
        (``machine_cpu``, ``machine_memory_bytes``, ``received_bytes_per_second``, ``sent_bytes_per_second``), and of
        each GPU (``gpu0_utilization``, 0 to 1, ``gpu0_memory_bytes``).
        """
        import pandas as pd

        rows = [
            (series.host, series.metric, time, value)
            for series in self._session.call(lambda fleet: fleet.machines(self.name, after))
            for time, value in zip(series.time, series.value, strict=True)
        ]
        table: pd.DataFrame = pd.DataFrame(rows, columns=["host", "metric", "time", "value"])
        return table

    @property
    def dashboard_url(self) -> str:
        """Dask's own dashboard, which is turned on when first asked for, below the Jupyter server.

        Raises Unavailable where no Jupyter server is running: the dashboard is on no port of its own.
        """
        self.wait_ready()
        self._session.call(lambda fleet: fleet.dashboard(self._name))
        return dashboard_url(self._name)

    @property
    def client(self) -> Client:
        """A ``distributed.Client`` of the cluster's own Dask scheduler, which is closed with the cluster.

        It is not Dask's default: ``cluster.client.persist(array)``, or ``with cluster.client.as_current():``.
        """
        self.wait_ready()
        return dask_client.client_of(self._name)

    def wait_ready(self: Held, timeout_s: float | None = None) -> Held:
        """Wait until the cluster answers. Raises Unavailable with the reason if it could not start, TimeoutError."""
        self._session.call(lambda fleet: fleet.ready(self._name), timeout_s)
        return self

    # -- what to do with it -------------------------------------------------------------------------------------

    def save_design(self, path: str | os.PathLike[str]) -> Design:
        """Write the cluster as it runs, each task where it is, to a ``.dtf`` file. Waits for the hosts to be there.

        What a design of that name has beside its cluster stays. Raises InvalidInput if the file is no design,
        Unavailable if it cannot be written.
        """
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
        """New numbers of tasks (or of workers, where it is a number), for the runs to come. Raises InvalidInput."""
        wanted = as_jobs(jobs)
        self.wait_ready()
        self._session.call(lambda fleet: fleet.scale(self._name, wanted))
        return self

    def close(self, timeout_s: float = 30.0) -> None:
        """End the cluster and its runs, and wait until nothing of it is left. Does nothing to one that is gone.

        One that does not answer is ended by its processes; one that has died is not shown as lost any more. Warns where
        its runs are if they could not be saved in their place. Raises Unavailable if there is no place for them at all,
        with what would be lost; called again, it ends the cluster at once. Raises Unavailable, too, if it has not ended
        after ``timeout_s``.
        """
        chosen.forget(self._name)
        self._end(timeout_s)

    def _end(self, timeout_s: float = 30.0) -> None:
        atexit.unregister(self._close_at_exit)
        dask_client.forget(self._name)
        try:
            word = self._session.call(lambda fleet: fleet.close_cluster(self._name), timeout_s)
        except NotFound:
            return
        except (TimeoutError, asyncio.TimeoutError):
            raise Unavailable(
                f"The cluster {self._name} has not ended within {timeout_s:g} s. {self._session.do(self._last_word)}"
            ) from None
        if word:
            warnings.warn(word, stacklevel=3)

    def _last_word(self, fleet: Fleet) -> str:
        with contextlib.suppress(NotFound):
            return fleet.connection(self._name).message
        return ""

    def end_with_process(self) -> None:
        """The cluster ends when this process does; this notebook's only if its kernel is not just restarted."""
        atexit.register(self._close_at_exit)

    def _close_at_exit(self) -> None:
        if surroundings.here().returns(self._name):
            return
        with contextlib.suppress(DtfError, TimeoutError):
            if self.status != ClusterState.LOST.value:  # a person has not seen yet that it died
                self._end()

    # -- what runs on it -----------------------------------------------------------------------------------------

    def _with_modules(self, modules: Sequence[Any], program: tuple[Any, ...]) -> tuple[Any, ...]:
        return own_modules.with_modules(self._this_one, modules, program)

    @property
    def _this_one(self) -> str:
        """What no other cluster is, one of the same name after it included."""
        try:
            return f"{self._name} {self.info.created}"
        except NotFound:
            return self._name

    def _run_name(self, name: str) -> str:
        """``name`` with a number if another run, live or past, is called so: what tells them apart in lists."""
        return run_names.numbered(name, self._taken_names())

    def _taken_names(self) -> list[str]:
        return [info.name for info in self._session.hub.runs()]

    # -- in a program, and shown --------------------------------------------------------------------------------

    def __enter__(self: Held) -> Held:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if chosen.name() != self._name:  # this notebook's cluster is there for the cells below as well
            self.close()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return surroundings.here().cluster_bundle(self)

    def __repr__(self) -> str:
        try:
            info = self.info
        except NotFound:
            return f"<Cluster {self._name}: stopped>"
        if info.incompatible:
            return f"<Cluster {info.name}: {wording.cluster_state(info)}. {info.incompatible}>"
        return f"<Cluster {info.name}: {wording.cluster_state(info)}, {info.kind}, {wording.jobs(info.jobs)}>"
