"""A fleet in memory, for the tests in this folder. It records requests and starts nothing."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.backend.viewer import resuming
from jupyter_dtf.errors import ClusterLost, Conflict, NotFound
from jupyter_dtf.schema.api import ClusterInfo, ClusterState, FieldInfo, KindInfo, Preview, Problem
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.schema.machines import MachineSeries
from jupyter_dtf.schema.run import RunDescriptor, RunInfo, RunState
from jupyter_dtf.schema.search_trial import SearchRequest


class MemoryFleet:
    """A substitute for ``backend.viewer.fleet.Fleet``, with the interface that the handlers use."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.asked: list[tuple[object, ...]] = []
        self.is_running = False
        self.lost = False  # whether clusters do not respond
        self.dashboards: set[str] = set()
        self.on_leave: Callable[[], None] = lambda: None
        self._clusters: dict[str, ClusterInfo] = {}
        self._subscribers: list[Callable[[], None]] = []

    async def start(self) -> None:
        self.is_running = True

    async def stop(self) -> None:
        self.is_running = False

    def clusters(self) -> list[ClusterInfo]:
        return list(self._clusters.values())

    def cluster(self, name: str) -> ClusterInfo:
        if name not in self._clusters:
            raise NotFound(f"There is no cluster named {name!r}")
        return self._clusters[name]

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._subscribers.append(callback)

        def leave() -> None:
            self._subscribers.remove(callback)
            self.on_leave()

        return leave

    @property
    def subscribers(self) -> int:
        return len(self._subscribers)

    def kinds(self) -> list[KindInfo]:
        hosts = FieldInfo(name="hosts", title="Dask workers", type="integer", default=1, minimum=1, counts_hosts=True)
        return [
            KindInfo(kind="local", title="This machine", available=True, fields=[hosts]),
            KindInfo(kind="moon", title="The moon", available=False, missing="a rocket"),
        ]

    def preview(self, request: ClusterRequest) -> Preview:
        problems = [Problem(field="name", message="taken")] if request.name in self._clusters else []
        return Preview(cluster_spec={job: ["localhost:0"] * n for job, n in request.jobs.items()}, tf_config={},
                       problems=problems)  # fmt: skip

    async def start_cluster(self, request: ClusterRequest) -> ClusterInfo:
        name = request.name or "local-1"
        if name in self._clusters:
            raise Conflict(f"`name` must be unused, but a cluster named {name!r} exists")
        self.asked.append(("start", request))
        self.set_cluster(ClusterInfo(name=name, kind=request.kind, state=ClusterState.STARTING, jobs=request.jobs))
        return self._clusters[name]

    async def scale(self, name: str, jobs: dict[str, int]) -> ClusterInfo:
        self._reach(name)
        self.set_cluster(msgspec.structs.replace(self._clusters[name], jobs=jobs))
        return self._clusters[name]

    async def stop_cluster(self, name: str) -> None:
        self.cluster(name)
        del self._clusters[name]
        self._tell()

    async def machines(self, name: str, after: float = 0.0) -> list[MachineSeries]:
        self._reach(name)
        times = [time for time in (1000.0, 1002.0) if time > after]
        drawn = MachineSeries(host="a", metric="cpu", plot="CPU", line="this cluster", unit="cores")
        drawn.time, drawn.value = times, [0.5] * len(times)
        return [drawn] if times else []

    async def dashboard(self, name: str, *, start: bool = True) -> str:
        self._reach(name)
        if start:
            self.dashboards.add(name)
        return "/no/such.sock" if name in self.dashboards else ""

    async def stop_run(self, run_id: str) -> None:
        info = self.hub.info(run_id)
        if info.state.is_final:
            raise Conflict(f"Only an active run can be stopped, but {run_id} is {info.state.value}")
        self.asked.append(("stop_run", run_id))

    async def pause_run(self, run_id: str) -> None:
        self.hub.info(run_id)
        self.asked.append(("pause_run", run_id))

    async def profile_run(self, run_id: str, steps: int) -> int:
        info = self.hub.info(run_id)
        if info.state is not RunState.RUNNING:
            raise Conflict(f"A run must be running to be profiled, but {run_id} is {info.state.value}")
        self.asked.append(("profile_run", run_id, steps))
        return 1

    async def continue_run(self, run_id: str) -> None:
        self.hub.info(run_id)
        self.asked.append(("continue_run", run_id))

    async def resume_run(
        self, run_id: str, cluster: str, step: int | None, opened: Callable[[RunInfo], object]
    ) -> RunInfo:
        self.asked.append(("resume_run", run_id, cluster, step))
        resuming.check_goes_on(self.hub.info(run_id))
        self.cluster(cluster)
        self.hub.add_run(RunDescriptor(id=f"{run_id}-again", name="again", cluster=cluster, resumed_from=run_id))
        opened(new := self.hub.info(f"{run_id}-again"))
        return new

    async def ask_search(self, search_id: str, request: SearchRequest) -> None:
        if all(info.trial is None or info.trial.search != search_id for info in self.hub.runs()):
            raise NotFound(f"There is no search {search_id}")
        self.asked.append(("ask_search", search_id, request))

    # -- for tests -----------------------------------------------------------------------------------------------------

    def set_cluster(self, info: ClusterInfo) -> None:
        self._clusters[info.name] = info
        self._tell()

    def _reach(self, name: str) -> None:
        self.cluster(name)
        if self.lost:
            raise ClusterLost(f"The cluster {name} does not respond")

    def _tell(self) -> None:
        for callback in self._subscribers:
            callback()
