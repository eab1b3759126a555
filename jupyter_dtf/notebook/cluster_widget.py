"""``ClusterWidget``: a cluster as an ipywidget, for viewing or for building dashboards."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import traitlets

from ..client import wording
from ..errors import InvalidInput, NotFound, Unavailable
from ..schema.api import ClusterInfo, ClusterState
from ..schema.run import RunInfo
from ..schema.sizes import bytes_, number
from .display import cluster_bundle
from .widgets import LiveWidget, Seen, finite, ipywidgets, text_of

if TYPE_CHECKING:
    from ..client.cluster import Cluster

_MOST_RUNS = 8
"""The number of runs that are shown; the trait contains all."""
_TABLE = "border-collapse: collapse; line-height: 1.5"
_CELL = "text-align: left; padding: 0 16px 0 0; white-space: nowrap"
_ENDS = (ClusterState.STOPPED, ClusterState.FAILED)


class ClusterWidget(LiveWidget):
    """A live view of a cluster: its state, hosts and runs, with controls to scale and to stop it.

    It is an ``ipywidgets.VBox``, so it can be put into other widgets. Its traits can be read, observed and linked; they
    follow the cluster until it has stopped.

    Args:
        cluster: The cluster.
        **options: Keyword arguments of ``ipywidgets.VBox``, such as ``layout``.

    The traits are:

    * ``state``: as ``cluster.status``
    * ``message``: one line: what the cluster is waiting for, why it failed, or what is wrong with it; otherwise empty
    * ``jobs``: the number of tasks of each job
    * ``workers``: the number of tasks of the job ``worker``
    * ``hosts``: a dict for each host: ``name``, ``machine``, ``threads``, ``cpu`` (cores in use), ``memory_bytes``,
      ``memory_used_bytes``, ``gpus`` and more
    * ``runs``: a dict for each run, newest first: ``id``, ``name``, ``state``, ``progress`` (0 to 1), ``metrics``
    * ``active_runs``: the number of active runs
    """

    name = traitlets.Unicode(read_only=True).tag(sync=True)
    state = traitlets.Unicode(read_only=True).tag(sync=True)
    message = traitlets.Unicode(read_only=True).tag(sync=True)
    jobs = traitlets.Dict(read_only=True).tag(sync=True)
    workers = traitlets.Int(read_only=True).tag(sync=True)
    hosts: Any = traitlets.List(read_only=True).tag(sync=True, to_json=finite)
    runs: Any = traitlets.List(read_only=True).tag(sync=True, to_json=finite)
    active_runs = traitlets.Int(read_only=True).tag(sync=True)

    def __init__(self, cluster: Cluster, **options: Any) -> None:
        from ..client.cluster_handle import ClusterHandle

        if not isinstance(cluster, ClusterHandle):
            raise InvalidInput(
                f"`cluster` must be a cluster, such as dtf.connect(...) returns, got {cluster!r:.200}", field="cluster"
            )
        self._cluster = cluster
        self._session = cluster._session
        self._hub = self._session.hub
        self._last = ClusterInfo(name=cluster.name, kind="", state=ClusterState.STOPPED)
        self._known: dict[str, RunInfo] | None = None
        self._news: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._line, self._why, self._table, self._list = (ipywidgets.HTML() for _ in range(4))
        self._wanted = ipywidgets.BoundedIntText(
            min=1, max=100_000, description="Workers", layout=ipywidgets.Layout(width="160px")
        )
        self._scale = ipywidgets.Button(description="Scale", icon="arrows-h", tooltip="Change the number of workers")
        self._scale.on_click(lambda _button: self._ask_to_scale())
        self._stop = ipywidgets.Button(description="Stop", icon="stop", tooltip=f"Stop the cluster {cluster.name}")
        self._stop.on_click(lambda _button: self._ask_to_stop())
        for button in (self._scale, self._stop):
            button.layout.width = "auto"
        head = ipywidgets.HBox([self._line, self._wanted, self._scale, self._stop])
        head.layout.flex_flow = "row wrap"
        children = [head, self._why, self._table, self._list]
        super().__init__(children, {"layout": ipywidgets.Layout(min_width="0", flex="1 1 auto"), **options})
        self.set_trait("name", cluster.name)
        traitlets.dlink((self, "workers"), (self._wanted, "value"))
        self._begin()

    @property
    def cluster(self) -> Cluster:
        """The cluster that the widget shows."""
        return self._cluster

    def scale(self, jobs: Mapping[str, int] | int) -> None:
        """Change the number of tasks. See ``Cluster.scale``."""
        self._cluster.scale(jobs)

    def stop(self) -> None:
        """End the cluster and its runs, and wait until they have ended. See ``Cluster.close``."""
        self._cluster.close()

    def __repr__(self) -> str:
        return f"<Widget of {self._cluster!r}>"

    # -- following ----------------------------------------------------------------------------------------------------

    def _subscribe(self) -> Callable[[], None]:
        session = self._session

        def on_run(run_id: str) -> None:
            self._news.put(run_id)
            self._changed.set()

        of_runs = self._hub.subscribe(on_run)
        try:
            of_clusters = session.do(lambda fleet: fleet.subscribe(self._changed.set))
        except BaseException:
            of_runs()
            raise

        def leave() -> None:
            of_runs()
            with contextlib.suppress(Unavailable):  # the session was closed, and there is nothing left to leave
                session.begin(lambda fleet: _called(of_clusters))

        return leave

    def _look(self) -> Seen:
        try:
            self._last = info = self._cluster.info
        except NotFound:
            info = msgspec.structs.replace(
                self._last, state=ClusterState.STOPPED, hosts=[], active_runs=0, notes=[], warnings=[], silent_s=0.0
            )
        runs = self._runs()
        return Seen(traits_of(info, runs), lambda: self._draw(info, runs), info.state in _ENDS)

    def _runs(self) -> list[RunInfo]:
        """Return the runs of the cluster, newest first. All runs are read once, and then only those that change."""
        if self._known is None:
            self._known = {}
            changed = [info.id for info in self._hub.runs() if info.cluster == self.name]
        else:
            changed = []
        while not self._news.empty():
            changed.append(self._news.get())
        for run_id in dict.fromkeys(changed):
            self._known.pop(run_id, None)
            try:
                info = self._hub.info(run_id)
            except NotFound:
                continue
            if info.cluster == self.name and info.created >= self._last.created and info.marks.deleted is None:
                self._known[run_id] = info
        return sorted(self._known.values(), key=lambda info: (-info.created, info.id))

    def _draw(self, info: ClusterInfo, runs: Sequence[RunInfo]) -> None:
        parts = [wording.cluster_state(info), info.kind, wording.jobs(info.jobs)]
        self._line.value = f"<b>{text_of(info.name)}</b> {text_of(' · '.join(filter(None, parts)))}"
        is_running = info.state is ClusterState.RUNNING
        self._scale.disabled = self._wanted.disabled = not is_running
        self._stop.disabled = info.state in _ENDS
        if not info.active_runs:
            self._stop.description, self._stop.button_style = "Stop", ""
        self._table.value = "".join(_hosts(info))
        self._list.value = "".join(_runs_table(runs))

    def _still(self) -> dict[str, Any]:
        bundle = cluster_bundle(self._cluster)
        return {"text/html": bundle["text/html"], "text/plain": repr(self)}

    # -- buttons ------------------------------------------------------------------------------------------------------

    def _ask_to_scale(self) -> None:
        jobs = {**self.jobs, "worker": self._wanted.value}
        self._ask(lambda: self.scale(jobs))

    def _ask_to_stop(self) -> None:
        """Stop the cluster: immediately if no run is active, otherwise when the button is pressed again."""
        if self.active_runs and self._stop.button_style != "danger":
            runs = f"{self.active_runs} run{'s' * (self.active_runs > 1)}"
            self._stop.description, self._stop.button_style = f"Stop cluster and {runs}", "danger"
            return
        self._ask(self.stop)

    def _said(self, text: str) -> None:
        self._why.value = f'<span role="alert">{text_of(text)}</span>' if text else ""


def _hosts(info: ClusterInfo) -> Iterator[str]:
    gpus = ["GPUs"] if any(host.gpus for host in info.hosts) else []
    if info.hosts:
        yield f'<table style="{_TABLE}"><tr>{_head("Host", "Machine", "CPU", "Memory", *gpus)}</tr>'
    for host in info.hosts:
        cells = [
            text_of(host.name),
            text_of(host.machine),
            _share(host.cpu, host.threads, f"{number(host.cpu)} of {host.threads} cores"),
            _share(host.memory_used_bytes, host.memory_bytes, bytes_(host.memory_used_bytes)),
        ]
        if gpus:
            cells.append(text_of(", ".join(f"{gpu.name} {100 * gpu.utilization:.0f} %" for gpu in host.gpus)))
        yield f"<tr>{_row(cells)}</tr>"
    if info.hosts:
        yield "</table>"
    for coming in info.coming:
        yield f"<div>{text_of(f'{coming.name}: {coming.problem or coming.step}')}</div>"
    for said in filter(None, [info.incompatible, info.message, *info.warnings]):
        yield f"<div>{text_of(said)}</div>"


def _runs_table(runs: Sequence[RunInfo]) -> Iterator[str]:
    if not runs:
        return
    yield f'<table style="{_TABLE}"><tr>{_head("Run", "State", "Metrics")}</tr>'
    for run in runs[:_MOST_RUNS]:
        metrics = " · ".join(f"{name} {wording.metric_value(name, value)}" for name, value in run.headline.items())
        state = f"{wording.MARKS.get(run.state, '')} {run.state.value}".strip()
        yield f"<tr>{_row([text_of(run.name), state, text_of(metrics)])}</tr>"
    yield "</table>"
    if len(runs) > _MOST_RUNS:
        yield f"<div>and {len(runs) - _MOST_RUNS} more</div>"


def _head(*names: str) -> str:
    return "".join(f'<th scope="col" style="{_CELL}; font-weight: 600">{name}</th>' for name in names)


def _row(cells: Sequence[str]) -> str:
    return "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells)


def _share(used: float, whole: float, text: str) -> str:
    part = min(max(used / whole, 0.0), 1.0) if whole else 0.0
    return f'<meter min="0" max="1" value="{part:.3f}" style="width: 60px">{text}</meter> {text}'


async def _called(function: Callable[[], None]) -> None:
    function()


def traits_of(info: ClusterInfo, runs: Sequence[RunInfo]) -> dict[str, Any]:
    """Return the traits of a ``ClusterWidget`` for the given state of its cluster. Pure."""
    said = [info.incompatible, info.message, *info.warnings]
    return {
        "state": info.state.value,
        "message": "; ".join(filter(None, said)),
        "jobs": dict(info.jobs),
        "workers": info.jobs.get("worker", 0),
        "hosts": msgspec.to_builtins(info.hosts),
        "runs": [
            {
                "id": run.id,
                "name": run.name,
                "state": run.state.value,
                "progress": run.progress.done / run.progress.total if run.progress.total else 0.0,
                "metrics": dict(run.headline),
            }
            for run in runs
        ],
        "active_runs": info.active_runs,
    }
