"""``Run``: the public handle of one execution of a program on a cluster."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from ..backend.records.run_forecast import efficiency, run_forecast
from ..backend.records.trace_files import read_placement, read_traces
from ..backend.viewer.resuming import check_goes_on
from ..errors import Conflict, NotFound
from ..schema.arguments import check_path, check_seconds
from ..schema.checkpoint import CheckpointInfo
from ..schema.efficiency import EfficiencyReport
from ..schema.events import Submitted, checkpoints_of, last_epochs
from ..schema.forecast import Forecast
from ..schema.origin import Source
from ..schema.run import RunInfo, RunState
from ..schema.strategy import Pipeline
from ..schema.trace import PROFILE_STEPS
from . import display_hooks, run_profile
from .forecast_settings import settings_of
from .run_changes import RunChanges, RunStates
from .run_results import EndedRun, History
from .run_words import SHORT, check_task, describe
from .session import Session, session

if TYPE_CHECKING:
    import ipywidgets
    import pandas as pd

    from .run_trace import Trace
    from .tensorboard_process import TensorBoard


class Run(EndedRun):
    """A run, live or past.

    Use ``dtf.run(run_id)`` for a run that was started elsewhere. A run does not depend on this object: it continues as
    long as its cluster is running, even if the object is gone.

    Attributes:
        id: The id of the run.
    """

    def __init__(self, run_id: str, *, in_session: Session | None = None) -> None:
        self.id = run_id
        self._session = in_session or session()
        self.sent: Future[RunInfo] | None = None
        """A future that is done when this process has sent the run's program and data; None if it sends nothing."""
        self.kept: Future[None] | None = None
        """A future that is done when the program and data are saved for resuming; None if they are not saved here."""
        self.told: threading.Thread | None = None
        """The thread that delivers the run's notifications and then ends; None if this process has none to deliver."""

    @property
    def is_being_sent(self) -> bool:
        """Whether this process is still sending the run's program and data."""
        return self.sent is not None and not self.sent.done()

    # -- inspection ---------------------------------------------------------------------------------------------

    @property
    def code(self) -> list[Source]:
        """The source code that the run was submitted with, where available: objects with ``name`` and ``text``."""
        found = self._submitted
        return [] if found is None else found.code

    @property
    def design(self) -> Source | None:
        """The design that the run was started from: the ``name`` of a ``.dtf`` file, and its ``text`` at that time.

        This is the design that the run's pipeline names, or the cluster part of the design that its cluster was started
        from. None if there is no design.
        """
        found = self._submitted
        return None if found is None else found.design

    @property
    def _submitted(self) -> Submitted | None:
        events = (event for _seq, event in self._session.hub.events(self.id))
        return next((event for event in events if isinstance(event, Submitted)), None)

    @property
    def status(self) -> str:
        """The state of the run: ``pending``, ``launching``, ``running``, ``restarting``, ``pausing``, ``paused``,
        ``stopping``, ``succeeded``, ``failed``, ``stopped`` or ``lost``.
        """
        return self.info.state.value

    @property
    def history(self) -> History:
        """The equivalent of Keras's ``History`` for the epochs that have ended so far."""
        history: dict[str, list[float]] = {}
        epochs = []
        for event in last_epochs(event for _seq, event in self._session.hub.events(self.id)):
            epochs.append(event.epoch)
            for metric, value in event.logs.items():
                history.setdefault(metric, []).append(value)
        return History(history, epochs, self.info.parameters, self._trained_model)

    @property
    def metrics(self) -> pd.DataFrame:
        """A DataFrame with a row for each reported point.

        Columns: ``task``, ``metric``, ``step``, ``time`` (seconds since 1970), ``value``, ``seq`` (sequence number
        within the task) and ``attempt``. Points that a restarted task has reported again appear only once.
        """
        import pandas as pd

        record = self._session.hub.record(self.id)
        parts = []
        for (metric, task), series in list(record.series.items()):
            size = len(series)  # it may grow in the meantime
            columns = {name: getattr(series, name)[:size] for name in ("step", "time", "value", "seq", "attempt")}
            parts.append(pd.DataFrame({"task": task, "metric": metric, **columns}))
        empty = pd.DataFrame(columns=["task", "metric", "step", "time", "value", "seq", "attempt"])
        points: pd.DataFrame = pd.concat(parts, ignore_index=True) if parts else empty
        return points

    def logs(self, job: str | None = None, task_index: int = 0) -> str:
        """Return the output of the run's tasks.

        Args:
            job: The job of the task whose output to return, or the name of the task, ``"worker:1"``. None: all tasks,
                each line prefixed with its task.
            task_index: The index of the task within its job.

        Returns:
            The lines of standard output and standard error, in the order in which they were printed.

        Raises:
            NotFound: If the run is no longer known, or has no such task.

        Example:
            >>> print(run.logs("worker", 1))
        """
        from .task_output import LogLines

        task = ""
        if job is not None or task_index:
            task = check_task(job if isinstance(job, str) and ":" in job else f"{job}:{task_index}", self.info)
        return "\n".join(LogLines(self._session.hub, self.id, task).new())

    @property
    def checkpoints(self) -> list[CheckpointInfo]:
        """The complete checkpoints that still exist, ordered by step.

        Each has ``step``, ``epoch``, ``time`` (seconds since 1970), ``bytes``, ``metric`` and ``path``.
        """
        return checkpoints_of(event for _seq, event in self._session.hub.events(self.id))

    def timeline(self) -> Trace:
        """Return the trace that ``profile`` or ``trace_steps`` recorded: when and where each operation ran.

        Returns:
            A trace of all tasks. A notebook shows it as a timeline.

        Raises:
            NotFound: If nothing was traced; the message explains how to trace a run.
        """
        from .run_trace import Trace

        return Trace(read_traces(Path(self.info.run_dir)))

    def placement(self) -> pd.DataFrame:
        """Return the device that each operation ran on; for a pipeline, the devices of each layer.

        Returns:
            A DataFrame. For a pipeline, a row for each layer, even without ``trace_steps``: ``layer``, ``planned`` and
            ``actual`` (lists of devices; ``planned`` is empty if the layer was not placed) and ``as_planned``.
            Otherwise a row for each execution of an operation: ``step``, ``op``, ``op_type``, ``task``, ``device``,
            ``start_us`` and ``duration_us`` (microseconds).

        Raises:
            NotFound: If nothing was traced.
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
        """Forecast how the run's training would scale, based on its measured steps.

        Args:
            **settings: Keyword arguments of ``dtf.predict``. By default, the strategy and the sizes are those of the
                run.

        Returns:
            The forecast.

        Raises:
            Conflict: If the run has completed too few steps, or is not a ``fit`` run with all-reduce, parameter servers
                or in-graph replication.
            InvalidInput: If a setting is invalid.

        Example:
            >>> run.forecast(tasks=[1, 2, 4, 64], network="25gbit")
        """
        settings.setdefault("strategy", self.info.strategy or "allreduce")
        wanted = settings_of(settings.pop("strategy"), settings.pop("tasks", None), **settings)
        return run_forecast(self._session.hub.record(self.id), wanted)

    def efficiency(self, forecast: Forecast | None = None) -> EfficiencyReport:
        """Compare the times of the parts of the run's steps with a forecast, by default one based on these steps.

        The report shows which parts took longer than forecast, which tasks the others waited for, and which parts were
        not measured.
        """
        return efficiency(self._session.hub.record(self.id), forecast)

    # -- control ------------------------------------------------------------------------------------------------

    def wait(self, timeout_s: float | None = None) -> Run:
        """Wait until the run has ended, whether or not it succeeded.

        Args:
            timeout_s: The longest time to wait, in seconds. None: no limit.

        Returns:
            This run.

        Raises:
            TimeoutError: If the run has not ended after ``timeout_s`` seconds.
        """
        self._wait_for(lambda info: info.state.is_final, timeout_s, "it has not ended")
        return self

    def wait_for(self, condition: Callable[[RunInfo], bool], timeout_s: float | None = None) -> RunInfo:
        """Wait until a condition on the run's state holds.

        Args:
            condition: Called with the run's ``RunInfo`` now and after every change, in this thread, so it may itself
                query runs and clusters. If the run changes faster than the condition returns, changes that only update
                numbers, such as metrics, may be skipped, except the newest one.
            timeout_s: The longest time to wait, in seconds. None: no limit.

        Returns:
            The ``RunInfo`` for which the condition held.

        Raises:
            TimeoutError: If the condition does not hold after ``timeout_s`` seconds.

        Example:
            >>> run.wait_for(lambda info: info.progress.epoch >= 2, timeout_s=60)
        """
        return self._wait_for(condition, timeout_s, "the condition does not hold")

    def _wait_for(self, condition: Callable[[RunInfo], bool], timeout_s: float | None, what_not: str) -> RunInfo:
        limit_s = check_seconds(timeout_s, "timeout_s")
        ends = None if limit_s is None else time.monotonic() + limit_s
        with RunChanges(self._session.hub, self.id) as changes:
            info = changes.take(None)
            while info is not None:
                if condition(info):
                    return info
                info = changes.take(ends)
        raise TimeoutError(f"The run {self.id} is {self.status}; {what_not} after {timeout_s} s")

    def on_state(self, tell: Callable[[RunState], object]) -> None:
        """Call a function with the run's current state and with each later state until the run has ended.

        Args:
            tell: The function. It is called once for each state, in order, and never twice at the same time: first in
                this thread, and later mostly in the session's thread, which it blocks until it returns.

        Raises:
            NotFound: If the run is no longer known.
        """
        RunStates(self._session.hub, self.id, tell).begin()

    def stop(self, *, now: bool = False) -> None:
        """Ask the program to stop after its current step. A second call ends its processes. Returns immediately.

        Does nothing if the run has ended.

        Args:
            now: End the processes immediately.
        """
        if not self.info.state.is_final:
            self._session.call(lambda fleet: fleet.stop_run(self.id, now=now))

    def pause(self) -> None:
        """Pause a training run: after its current step it writes a checkpoint, ends its tasks and frees their devices.

        Returns as soon as the cluster has accepted the request. ``continue_`` continues the run.

        Raises:
            Conflict: If the run cannot be paused; the message gives the reason.
        """
        self._session.call(lambda fleet: fleet.pause_run(self.id))

    def continue_(self) -> None:
        """Continue a paused run from its checkpoint as soon as the cluster has capacity for it.

        Raises:
            Conflict: If the run is not paused.
        """
        self._session.call(lambda fleet: fleet.continue_run(self.id))

    @overload
    def profile(self, steps: int = ..., *, wait: Literal[True] = ..., timeout_s: float | None = ...) -> Trace: ...

    @overload
    def profile(self, steps: int = ..., *, wait: bool, timeout_s: float | None = ...) -> Trace | None: ...

    def profile(self, steps: int = PROFILE_STEPS, *, wait: bool = True, timeout_s: float | None = 60.0) -> Trace | None:
        """Trace the next steps of the run while it is running, on all tasks.

        In a training run, all tasks trace the same steps. In any other program, the steps are those that it marks with
        ``ctx.traced(step)``, or its calls to ``Session.run``. The new trace replaces the previous one.

        Args:
            steps: The number of steps, from 1 to 100.
            wait: Whether to wait until all tasks that execute steps have written their traces.
            timeout_s: The longest time to wait, in seconds. None: no limit.

        Returns:
            The trace, as ``timeline`` returns it; None if ``wait`` is False.

        Raises:
            InvalidInput: If ``steps`` is not an integer from 1 to 100.
            Conflict: If the run is not running, is already being profiled, or has ended before a step was traced.
            TimeoutError: If the trace is not complete after ``timeout_s`` seconds. ``timeline`` returns the trace once
                it is complete.

        Example:
            >>> run.profile(steps=3).save("trace.json")
        """
        number = run_profile.ask(self._session, self.id, steps)
        if not wait:
            return None
        run_profile.wait(self.wait_for, number, timeout_s)
        return self.timeline()

    def resume(self, step: int | None = None, *, cluster: Any = None, wait: bool = True) -> Run:
        """Continue a training run from one of its checkpoints, as a new run with the same model, data and options.

        Any process can do so, because the run's program and up to 256 MiB of its data were saved when it was submitted.

        Args:
            step: The step of the checkpoint. None: the newest checkpoint.
            cluster: The cluster, or its name, to continue on. None: the run's own cluster.
            wait: See ``Cluster.fit``.

        Returns:
            The new run.

        Raises:
            NotFound: If there is no such checkpoint.
            Conflict: If the run cannot be continued from here.
            RunFailed: With the traceback of the task that failed first.
        """
        raise self._not_held()

    def export(self, path: str | os.PathLike[str], step: int | None = None) -> Path:
        """Save the model of one of a training run's checkpoints. See ``FitRun.export``."""
        raise self._not_a_training("a model to export")

    @property
    def model(self) -> Any:
        """The trained model of a training run. See ``FitRun.model``."""
        raise AttributeError(str(self._not_a_training("`model`")), name="model", obj=self)

    @property
    def updates(self) -> dict[str, dict[str, int]]:
        """The numbers of gradient updates of a training run. See ``FitRun.updates``."""
        raise AttributeError(str(self._not_a_training("`updates`")), name="updates", obj=self)

    def _not_a_training(self, what: str) -> Conflict:
        info = self.info
        if info.kind == "fit":
            return self._not_held()
        return Conflict(f"Only a run of cluster.fit has {what}, but {info.name} ({info.id}) is of the kind {info.kind}")

    def _not_held(self) -> Conflict:
        check_goes_on(self.info)
        return Conflict(f"To continue a training run, use the object that `dtf.run({self.id!r})` returns, not {self!r}")

    def result(self, timeout_s: float | None = None) -> Any:
        """Wait until the run has ended and return the return values of its tasks.

        Args:
            timeout_s: The longest time to wait, in seconds. None: no limit.

        Returns:
            The results, indexed by rank (``[0]``) or by name (``["worker:1"]``).

        Raises:
            RunFailed: With the traceback of the task that failed first.
            RunStopped: If the run was stopped.
            ClusterLost: If the cluster was lost.
            NotFound: If a result is no longer available: a cluster keeps only the newest results, up to 4 GiB, until it
                is closed.
            Unavailable: If a result cannot be unpickled in this process.
            TimeoutError: If the run has not ended after ``timeout_s`` seconds.
        """
        self.wait(timeout_s)
        self.raise_for_state()
        return self._results()

    def _trained_model(self) -> Any:
        return None

    # -- display ------------------------------------------------------------------------------------------------

    def show(self) -> None:
        """Show the run: live plots in a notebook (a static picture without the extension), otherwise a line of text."""
        display_hooks.here().show(self)

    def tensorboard(self, directory: str | os.PathLike[str] | None = None) -> TensorBoard:
        """Open TensorBoard for this run, live or past.

        All points of the run are written to event files, in one directory per task. New points are added every few
        seconds until ``close()``. The ``url`` works only for this user on this machine, until ``close()`` or the end of
        this process.

        Args:
            directory: The directory for the event files. Default: ``tensorboard`` in the run's own directory.

        Returns:
            The TensorBoard process, shown as a link in a notebook.

        Raises:
            Unavailable: If TensorBoard is not installed.

        Example:
            >>> shown = run.tensorboard()
            >>> shown.url
            'http://127.0.0.1:41235/...'
        """
        from .tensorboard import open_tensorboard

        if directory is not None:
            directory = check_path(directory, "directory")
        return open_tensorboard(self, directory)

    def widget(self) -> ipywidgets.VBox:
        """Return a live ``ipywidgets`` view of the run.

        It also works in frontends without the extension, such as VS Code.

        Returns:
            A ``dtf.RunWidget``.
        """
        widget: ipywidgets.VBox = display_hooks.here().widget(self)
        return widget

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return display_hooks.here().run_bundle(self)

    def __repr__(self) -> str:
        try:
            info = self.info
        except NotFound:
            return f"<Run {self.id}: not known here>"
        return f"<Run {describe(info, ', ', most=SHORT)}>"  # only characters that any terminal can print
