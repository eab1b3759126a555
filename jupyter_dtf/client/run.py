"""``Run``: one execution of a program on a cluster, as a person holds it."""

from __future__ import annotations

import os
import pickle
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..backend.planning.launch_plan import ordered_tasks
from ..backend.records.run_forecast import efficiency, run_forecast
from ..backend.records.trace_files import read_placement, read_traces
from ..backend.viewer.resuming import check_goes_on
from ..errors import ClusterLost, Conflict, NotFound, RunFailed, RunStopped
from ..schema.checkpoint import CheckpointInfo
from ..schema.efficiency import EfficiencyReport
from ..schema.events import Submitted, checkpoints_of, last_epochs
from ..schema.forecast import Forecast
from ..schema.origin import Source
from ..schema.run import RunInfo, RunState, TaskState
from ..schema.strategy import Pipeline
from . import surroundings, wording
from .forecast_settings import settings_of
from .named_run import NamedRun
from .session import Session, session

if TYPE_CHECKING:
    import ipywidgets
    import pandas as pd

    from .run_trace import Trace


class Results(list[Any]):
    """What the tasks of a run returned, in order of rank. Also by name: ``results["worker:1"]``."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values.values())
        self._names = list(values)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self._names.index(key) if isinstance(key, str) else key)

    def items(self) -> list[tuple[str, Any]]:
        """(task, value) pairs."""
        return list(zip(self._names, self, strict=True))


class History(Mapping[str, list[float]]):
    """What Keras's ``History`` would be, and a mapping of a metric to its values at the end of each epoch.

    ``history`` is that as a dict, ``epoch`` the epochs' numbers, ``params`` the run's settings, ``model`` the model.
    """

    def __init__(
        self,
        history: dict[str, list[float]],
        epoch: list[int],
        params: dict[str, Any] | None = None,
        model: Callable[[], Any] | None = None,
    ) -> None:
        self.history = history
        self.epoch = epoch
        self.params = params or {}
        self._model = model

    @property
    def model(self) -> Any:
        """The trained model; waits for the end of the run. None for a run that trains none that is known here."""
        return self._model() if self._model else None

    def __getitem__(self, metric: str) -> list[float]:
        return self.history[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self.history)

    def __len__(self) -> int:
        return len(self.history)

    def __repr__(self) -> str:
        last = ", ".join(f"{name} {values[-1]:.4g}" for name, values in self.history.items() if values)
        return f"<History of {len(self.epoch)} epoch{'s' * (len(self.epoch) != 1)}{': ' * bool(last)}{last}>"

    def __bool__(self) -> bool:
        return True  # as Keras's, before the first epoch has ended as well


class Run(NamedRun):
    """A run, live or past. Nothing here holds the run up: it goes on when this object and its process are gone."""

    def __init__(self, run_id: str, *, in_session: Session | None = None) -> None:
        self.id = run_id
        self._session = in_session or session()
        self.sent: Future[RunInfo] | None = None
        """Done when this process has sent the run's program and data; None where it sends none."""
        self.kept: Future[None] | None = None
        """Done when it has kept them as well, for whoever is to go on with the run; None where it keeps none."""
        self.told: threading.Thread | None = None
        """Ends when all has been told of it by this process that ``notify`` wanted; None where nothing was wanted."""

    @property
    def is_being_sent(self) -> bool:
        """Whether this process is still sending the run's program and data, without which it cannot go on."""
        return self.sent is not None and not self.sent.done()

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def code(self) -> list[Source]:
        """What it was submitted with, as far as its source was to be had: pieces with a ``name`` and a ``text``."""
        found = self._submitted
        return [] if found is None else found.code

    @property
    def design(self) -> Source | None:
        """The design that it came from, as it was then: the ``text`` of a ``.dtf`` file and its ``name``, or None.

        A run came from one where its pipeline names it, or where its cluster was started from one with hosts or tasks:
        of that it is the cluster alone.
        """
        found = self._submitted
        return None if found is None else found.design

    @property
    def _submitted(self) -> Submitted | None:
        events = (event for _seq, event in self._session.hub.events(self.id))
        return next((event for event in events if isinstance(event, Submitted)), None)

    @property
    def status(self) -> str:
        """``pending``, ``launching``, ``running``, ``restarting``, ``pausing``, ``paused``, ``stopping``,
        ``succeeded``, ``failed``, ``stopped`` or ``lost``.
        """
        return self.info.state.value

    @property
    def history(self) -> History:
        """What Keras's ``History`` would be, of the epochs so far."""
        history: dict[str, list[float]] = {}
        epochs = []
        for event in last_epochs(event for _seq, event in self._session.hub.events(self.id)):
            epochs.append(event.epoch)
            for metric, value in event.logs.items():
                history.setdefault(metric, []).append(value)
        return History(history, epochs, self.info.parameters, self._trained_model)

    @property
    def metrics(self) -> pd.DataFrame:
        """Every point: ``task``, ``metric``, ``step``, ``time`` (seconds since the epoch), ``value``, ``seq``,
        ``attempt``.

        Of a task that was started again, without the points that the later attempt has repeated.
        """
        import pandas as pd

        record = self._session.hub.record(self.id)
        parts = []
        for (metric, task), series in list(record.series.items()):
            size = len(series)  # which grows meanwhile
            columns = {name: getattr(series, name)[:size] for name in ("step", "time", "value", "seq", "attempt")}
            parts.append(pd.DataFrame({"task": task, "metric": metric, **columns}))
        empty = pd.DataFrame(columns=["task", "metric", "step", "time", "value", "seq", "attempt"])
        points: pd.DataFrame = pd.concat(parts, ignore_index=True) if parts else empty
        return points

    def logs(self, job: str | None = None, task_index: int = 0) -> str:
        """The output of one task, ``run.logs("worker", 1)``; without a job, of all tasks, each line with its task."""
        from .task_output import LogLines

        return "\n".join(LogLines(self._session.hub, self.id, "" if job is None else f"{job}:{task_index}").new())

    @property
    def checkpoints(self) -> list[CheckpointInfo]:
        """The complete checkpoints that are kept, by step: ``step``, ``epoch``, ``time`` (seconds since the epoch),
        ``bytes``, ``metric``, ``path``.
        """
        return checkpoints_of(event for _seq, event in self._session.hub.events(self.id))

    def timeline(self) -> Trace:
        """What ran where in the steps that were traced (``trace_steps``), of all tasks; in a notebook, a picture.

        Raises NotFound, which says how to have a run traced.
        """
        from .run_trace import Trace

        return Trace(read_traces(Path(self.info.run_dir)))

    def placement(self) -> pd.DataFrame:
        """Where operations ran: ``step``, ``op``, ``op_type``, ``task``, ``device``, ``start_us``, ``duration_us``.

        Of a pipeline a row for each layer: ``layer``, ``planned`` (none for one that was not placed), ``actual``
        (devices, in lists), ``as_planned``. That needs no ``trace_steps``. Raises NotFound, as ``timeline``.
        """
        import pandas as pd

        if self.info.strategy != Pipeline.name:
            return self.timeline().table
        rows = [
            (row.layer, row.planned, row.actual, not row.planned or set(row.planned) == set(row.actual))
            for row in read_placement(Path(self.info.run_dir)).layers
        ]
        table: pd.DataFrame = pd.DataFrame(rows, columns=["layer", "planned", "actual", "as_planned"])
        return table

    def forecast(self, **settings: Any) -> Forecast:
        """How it would scale, by what its own steps took: ``run.forecast(tasks=[1, 2, 4, 64], network="25gbit")``.

        Settings are those of ``dtf.predict``; the strategy and the sizes are the run's own. Raises Conflict for a run
        of too few steps, or that is no ``fit`` by all-reduce, parameter servers or in-graph; InvalidInput.
        """
        settings.setdefault("strategy", self.info.strategy or "allreduce")
        wanted = settings_of(settings.pop("strategy"), settings.pop("tasks", None), **settings)
        return run_forecast(self._session.hub.record(self.id), wanted)

    def efficiency(self, forecast: Forecast | None = None) -> EfficiencyReport:
        """What its steps were made of, beside a ``forecast`` (by default one made of its own steps): which part took
        longer, and whom the others waited for. What was not measured is named.
        """
        return efficiency(self._session.hub.record(self.id), forecast)

    # -- what to do with it -------------------------------------------------------------------------------------

    def wait(self, timeout_s: float | None = None) -> Run:
        """Wait until the run has ended, however it ended. Raises TimeoutError."""
        self.wait_for(lambda info: info.state.is_final, timeout_s)
        return self

    def wait_for(self, condition: Callable[[RunInfo], bool], timeout_s: float | None = None) -> RunInfo:
        """Wait until ``condition(info)`` holds, which is asked after every change. Raises TimeoutError.

        The condition is called in this thread, so it may itself ask runs and clusters.
        """
        hub = self._session.hub
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        changes: queue.SimpleQueue[RunInfo | Exception] = queue.SimpleQueue()

        def on_change(run_id: str) -> None:
            if run_id == self.id:
                try:
                    changes.put(hub.info(run_id))
                except Exception as error:  # nobody else would hear of it, and this would wait for ever
                    changes.put(error)

        unsubscribe = hub.subscribe(on_change)
        try:
            on_change(self.id)
            while True:
                left_s = None if ends is None else max(ends - time.monotonic(), 0.0)
                try:
                    info = changes.get(timeout=left_s)
                except queue.Empty:
                    raise TimeoutError(
                        f"The run {self.id} is {self.status}, and not what was waited for, {timeout_s} s on"
                    ) from None
                if isinstance(info, Exception):
                    raise info
                if condition(info):
                    return info
        finally:
            unsubscribe()

    def on_state(self, tell: Callable[[RunState], object]) -> None:
        """Have ``tell`` called with the state that the run is in, and with every other one until its end.

        In a thread of the session's, which waits meanwhile.
        """
        hub, told = self._session.hub, [RunState.PENDING]

        def on_change(run_id: str) -> None:
            if run_id == self.id and (state := hub.info(run_id).state) is not told[-1]:
                told.append(state)
                tell(state)
                if state.is_final:
                    unsubscribe()

        unsubscribe = hub.subscribe(on_change)
        on_change(self.id)

    def stop(self, *, now: bool = False) -> None:
        """Ask the program to stop at its next step; a second call, or ``now``, ends it. Ended runs stay as they are."""
        if not self.info.state.is_final:
            self._session.call(lambda fleet: fleet.stop_run(self.id, now=now))

    def pause(self) -> None:
        """Have a training end its tasks at a step's end with a checkpoint, and wait without them, and without devices,
        for ``continue_``. Returns when it has been asked. Raises Conflict for a run that cannot, with why.
        """
        self._session.call(lambda fleet: fleet.pause_run(self.id))

    def continue_(self) -> None:
        """Have a paused run go on from its checkpoint, when there is room for it. Raises Conflict."""
        self._session.call(lambda fleet: fleet.continue_run(self.id))

    def resume(self, step: int | None = None, *, cluster: Any = None, wait: bool = True) -> Run:
        """Go on from the newest checkpoint of a training, or that of ``step``, as a new run with the same model, data
        and options. ``cluster``: a cluster or its name; by default the run's own. ``wait`` as in ``cluster.fit``.

        Any process can, for a run keeps what it was submitted with, data included up to 256 MiB. Raises NotFound where
        there is no such checkpoint, Conflict where one cannot go on with the run from here, and as ``cluster.fit``.
        """
        raise self._not_held()

    def export(self, path: str | os.PathLike[str], step: int | None = None) -> Path:
        """Save the model of a training's newest checkpoint, or that of ``step``. Raises as ``resume``."""
        raise self._not_held()

    def _not_held(self) -> Conflict:
        check_goes_on(self.info)
        return Conflict(f"A training goes on as what `dtf.run({self.id!r})` holds. Received: {self!r}")

    def result(self, timeout_s: float | None = None) -> Any:
        """Wait, then what every task returned, by rank (``[0]``) or name (``["worker:1"]``).

        Raises RunFailed with the failing task's own traceback, RunStopped, ClusterLost when the cluster went away, and
        TimeoutError.
        """
        self.wait(timeout_s)
        self.raise_for_state()
        return self._results()

    def raise_for_state(self) -> None:
        """Raise what a run that did not succeed raises: RunFailed, RunStopped or ClusterLost."""
        info = self.info
        if info.state is RunState.FAILED:
            failed = [task for task in info.tasks if task.state is TaskState.FAILED]
            first = next((task for task in failed if info.message.startswith(task.task)), failed[0] if failed else None)
            raise RunFailed(
                f"The run {info.name} ({info.id}) failed: {info.message}",
                run_id=info.id,
                task=first.task if first else "",
                traceback=first.traceback if first else "",
            )
        if info.state is RunState.STOPPED:
            raise RunStopped(f"The run {info.name} ({info.id}) was stopped", run_id=info.id)
        if info.state is RunState.LOST:
            raise ClusterLost(f"The run {info.name} ({info.id}) is lost: {info.message}")

    def _trained_model(self) -> Any:
        return None

    def _results(self) -> Results:
        info = self.info
        done = [task.task for task in info.tasks if task.state is TaskState.SUCCEEDED]
        return Results({task: self._result_of(task) for task in done})

    def _result_of(self, task: str) -> Any:
        try:
            data = self._session.call(lambda fleet: fleet.result(self.id, task))
        except NotFound:
            raise NotFound(f"Results are kept by their cluster. Received: {self.id}, whose cluster is gone") from None
        return pickle.loads(data)

    # -- showing ------------------------------------------------------------------------------------------------

    def show(self) -> None:
        """Show it: live in a notebook, with a still picture for viewers without the extension; elsewhere in a line."""
        surroundings.here().show(self)

    def widget(self) -> ipywidgets.VBox:
        """``dtf.RunWidget(run)``: an ipywidget, live also where the JupyterLab extension is not, as in VS Code."""
        widget: ipywidgets.VBox = surroundings.here().widget(self)
        return widget

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return surroundings.here().run_bundle(self)

    def __repr__(self) -> str:
        try:
            info = self.info
        except NotFound:
            return f"<Run {self.id}: not known here>"
        return f"<Run {describe(info, ', ')}>"  # which any terminal can print


def describe(info: RunInfo, separator: str = " · ") -> str:
    """One good line about a run."""
    parts = [info.name, info.state.value]
    progress = info.progress
    if progress.epochs:
        parts.append(f"epoch {progress.epoch}/{progress.epochs}")
    if progress.total and not info.state.is_final:
        parts.append(f"{100 * progress.done / progress.total:.0f} %")
    parts += [f"{metric} {wording.metric_value(metric, value)}" for metric, value in info.headline.items()]
    parts += info.not_finite.values()
    if info.message:
        parts.append(info.message)
    return separator.join(parts)


def task_names(info: RunInfo) -> list[str]:
    """All tasks of a run by rank, ``worker:0`` first. Its ``tasks`` are empty until they have been planned."""
    return [f"{job}:{index}" for job, index in ordered_tasks(info.jobs)]
