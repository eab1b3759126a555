"""``RunWidget``: a run as an ipywidget, for viewing or for building dashboards."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import traitlets

from ..errors import InvalidInput
from ..schema.run import RunInfo, RunState
from .display import RUN_MIME
from .still import still
from .widgets import LiveWidget, Seen, finite, ipywidgets, text_of

if TYPE_CHECKING:
    from ..client.run import Run

_LIVE = "jp-dtf-widget"
_PLAIN = "jp-dtf-widget-plain"
"""The CSS class of the elements that the extension hides when it shows its dashboard instead."""
_BAR_STYLES = {"succeeded": "success", "failed": "danger", "lost": "danger", "paused": "warning"}


class RunWidget(LiveWidget):
    """A live view of a run: its dashboard with the JupyterLab extension, otherwise a bar, plots and buttons.

    It is an ``ipywidgets.VBox``, so it can be put into other widgets. Its traits can be read, observed and linked; they
    follow the run until it has ended.

    Args:
        run: The run.
        dashboard: Show the extension's dashboard where it is available. False: bar, plots and buttons everywhere.
        **options: Keyword arguments of ``ipywidgets.VBox``, such as ``layout``.

    The traits are:

    * ``state``: as ``run.status``
    * ``message``: one line: why the run is waiting or why it failed
    * ``error``: the message of a run that has failed or is lost; otherwise empty
    * ``progress``: from 0 to 1; 0 if unknown
    * ``step``, ``steps``: the number of completed steps and the total number; 0 if unknown
    * ``epoch``, ``epochs``: the current epoch, counted from 1, and the number of epochs; 0 if there are none
    * ``metrics``: the newest value of each metric, as the mean over the tasks
    * ``task_metrics``: the newest values of each task: ``{"worker:1": {"loss": 0.5}}``
    * ``best``: the best value of each metric for which it is known whether higher or lower is better
    * ``tasks``: the state of each task
    * ``attempt``: the highest number of restarts of any task

    Raises:
        NotFound: If the run is not known.
        InvalidInput: If ``run`` is not a run.

    Example:
        >>> widget = dtf.RunWidget(run)
        >>> widget.observe(lambda change: print(change.new), "epoch")
    """

    run_id = traitlets.Unicode(read_only=True).tag(sync=True)
    state = traitlets.Unicode(read_only=True).tag(sync=True)
    message = traitlets.Unicode(read_only=True).tag(sync=True)
    error = traitlets.Unicode(read_only=True).tag(sync=True)
    progress = traitlets.Float(read_only=True).tag(sync=True)
    step = traitlets.Int(read_only=True).tag(sync=True)
    steps = traitlets.Int(read_only=True).tag(sync=True)
    epoch = traitlets.Int(read_only=True).tag(sync=True)
    epochs = traitlets.Int(read_only=True).tag(sync=True)
    metrics = traitlets.Dict(read_only=True).tag(sync=True, to_json=finite)
    task_metrics = traitlets.Dict(read_only=True).tag(sync=True, to_json=finite)
    best = traitlets.Dict(read_only=True).tag(sync=True, to_json=finite)
    tasks = traitlets.Dict(read_only=True).tag(sync=True)
    attempt = traitlets.Int(read_only=True).tag(sync=True)

    def __init__(self, run: Run, *, dashboard: bool = True, **options: Any) -> None:
        from ..client.run import Run

        if not isinstance(run, Run):
            raise InvalidInput(f"`run` must be a run, such as dtf.run(...) returns, got {run!r:.200}", field="run")
        name = run.info.name
        self._run = run
        self._hub = run._session.hub
        self._has_dashboard = dashboard
        self._bar = ipywidgets.FloatProgress(min=0, max=1, layout=ipywidgets.Layout(width="240px"))
        self._stop = ipywidgets.Button(description="Stop", icon="stop", tooltip=f"Stop the run {name}")
        self._stop.on_click(lambda _button: self._ask(run.stop))
        self._pause = ipywidgets.Button()
        self._pause.on_click(lambda _button: self._ask(run.continue_ if self.state == "paused" else run.pause))
        for button in (self._stop, self._pause):
            button.layout.width = "auto"
        self._line, self._why, self._picture = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.HTML()
        head = ipywidgets.HBox([self._bar, self._stop, self._pause, self._line])
        head.layout.flex_flow = "row wrap"
        children = [head, self._why, self._picture]
        if dashboard:
            for child in (head, self._picture):
                child.add_class(_PLAIN)
            # Empty in frontends without the extension.
            shown = {
                "output_type": "display_data",
                "data": {RUN_MIME: {"run": run.id}, "text/html": ""},
                "metadata": {},
            }
            children.append(ipywidgets.Output(outputs=(shown,)))
        least = "300px" if dashboard else "0"  # a narrower dashboard would be cut off; a smaller box scrolls
        super().__init__(children, {"layout": ipywidgets.Layout(min_width=least, flex="1 1 auto"), **options})
        self.add_class(_LIVE)
        self.set_trait("run_id", run.id)
        self._begin()

    @property
    def run(self) -> Run:
        """The run that the widget shows."""
        return self._run

    def stop(self, *, now: bool = False) -> None:
        """Stop the run. See ``Run.stop``."""
        self._run.stop(now=now)

    def pause(self) -> None:
        """Pause the run. See ``Run.pause``."""
        self._run.pause()

    def continue_(self) -> None:
        """Continue the run. See ``Run.continue_``."""
        self._run.continue_()

    def __repr__(self) -> str:
        return f"<Widget of {self._run!r}>"

    # -- following ----------------------------------------------------------------------------------------------------

    def _subscribe(self) -> Callable[[], None]:
        return self._hub.watch(self._run.id, self._changed)

    def _look(self) -> Seen:
        info = self._hub.info(self._run.id)
        traits = traits_of(info, self._task_metrics())
        return Seen(traits, lambda: self._draw(info, traits["progress"]), info.state.is_final)

    def _task_metrics(self) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {}
        for (metric, task), series in list(self._hub.record(self._run.id).series.items()):
            if size := len(series):  # it may grow while it is read
                found.setdefault(task, {})[metric] = float(series.value[size - 1])
        return found

    def _draw(self, info: RunInfo, progress: float) -> None:
        from ..client.run_words import describe

        state = info.state.value
        self._bar.value = progress
        self._bar.bar_style = _BAR_STYLES.get(state, "")
        self._line.value = text_of(describe(info))
        self._stop.disabled = info.state.is_final
        is_paused = info.state is RunState.PAUSED
        self._pause.description, self._pause.icon = ("Continue", "play") if is_paused else ("Pause", "pause")
        self._pause.disabled = not is_paused and info.state is not RunState.RUNNING
        self._pause.layout.display = None if info.goes_on and not info.state.is_final else "none"
        picture = base64.b64encode(still(info, self._hub.lines(info.id)).encode()).decode()
        self._picture.value = (
            f'<img alt="Metrics of the run" style="max-width: 100%" src="data:image/svg+xml;base64,{picture}">'
        )

    def _still(self) -> dict[str, Any]:
        bundle = {"image/svg+xml": still(self._run.info, self._hub.lines(self._run.id)), "text/plain": repr(self)}
        # Among the MIME types other than the widget's own, the extension prefers this one, because it needs no kernel.
        live = self._has_dashboard and self.children == self._shipped
        return {RUN_MIME: {"run": self._run.id}, **bundle} if live else bundle

    def _said(self, text: str) -> None:
        self._why.value = f'<span role="alert">{text_of(text)}</span>' if text else ""


def traits_of(info: RunInfo, task_metrics: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Return the traits of a ``RunWidget`` for the given state of its run. Pure."""
    progress = info.progress
    if info.state is RunState.SUCCEEDED:
        part = 1.0
    elif progress.total:
        part = progress.done / progress.total
    else:
        part = max(progress.epoch - 1, 0) / progress.epochs if progress.epochs else 0.0
    has_failed = info.state in (RunState.FAILED, RunState.LOST)
    return {
        "state": info.state.value,
        "message": info.message,
        "error": info.message if has_failed else "",
        "progress": min(max(part, 0.0), 1.0),
        "step": progress.done,
        "steps": progress.total,
        "epoch": progress.epoch,
        "epochs": progress.epochs,
        "metrics": dict(info.latest),
        "task_metrics": {task: dict(values) for task, values in task_metrics.items()},
        "best": {metric: best.value for metric, best in info.best.items()},
        "tasks": {task.task: task.state.value for task in info.tasks},
        "attempt": max((task.attempt for task in info.tasks), default=0),
    }
