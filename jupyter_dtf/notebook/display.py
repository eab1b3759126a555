"""The MIME bundles of clusters and runs in notebooks. The extension renders them live, and each has a fallback."""

from __future__ import annotations

import html
import logging
import threading
from typing import TYPE_CHECKING, Any

from ..client import wording
from ..errors import NotFound
from ..schema.api import ClusterInfo, ClusterState
from ..schema.run import RunInfo, RunState
from ..schema.sizes import bytes_, duration
from .still import still

if TYPE_CHECKING:
    from ..client.cluster import Cluster
    from ..client.run import Run

logger = logging.getLogger(__name__)

Bundle = dict[str, Any]

RUN_MIME = "application/vnd.jupyter-dtf.run+json"
"""``{"run": id}``: the live dashboard of a run."""
RUN_CARD_MIME = "application/vnd.jupyter-dtf.run-card+json"
"""``{"run": id}``: a small live card of a run."""
CLUSTER_MIME = "application/vnd.jupyter-dtf.cluster+json"
"""``{"name": name}``: a small live card of a cluster."""

_COLOURS = {
    "running": "var(--jp-success-color1, #388e3c)",
    "succeeded": "var(--jp-success-color1, #388e3c)",
    "failed": "var(--jp-error-color1, #d32f2f)",
    "lost": "var(--jp-error-color1, #d32f2f)",
}
_GREY = "var(--jp-ui-font-color2, #757575)"


# -- the dashboard in an output ------------------------------------------------------------------------------------


class Shown:
    """A run shown in a notebook's output. When the run ends, its static picture is replaced by the final one."""

    def __init__(self, run: Run) -> None:
        from IPython.display import display

        self._run = run
        self._hub = run._session.hub
        self._lock = threading.Lock()
        self._final = False
        with self._lock:
            self._handle = display(show_bundle(run), raw=True, display_id=True)
            self._unsubscribe = self._hub.subscribe(self._on_change)
        self._on_change(run.id)

    def _on_change(self, run_id: str) -> None:
        if run_id == self._run.id and not self._final and self._hub.info(run_id).state.is_final:
            threading.Thread(target=self._finish_quietly, name="dtf-still", daemon=True).start()

    def _finish_quietly(self) -> None:
        try:
            self.finish()
        except Exception as error:  # the kernel is ending
            logger.debug("The final picture of %s could not be shown: %s", self._run.id, error)

    def finish(self) -> None:
        """Draw the final picture if the run has ended; otherwise, do nothing."""
        with self._lock:
            if self._final or not self._run.info.state.is_final:
                return
            self._final = True
            self._unsubscribe()
            self._handle.update(show_bundle(self._run), raw=True)


def show_bundle(run: Run) -> Bundle:
    """Return the live dashboard of a run, with a static picture for frontends without the extension."""
    return {
        RUN_MIME: {"run": run.id},
        "image/svg+xml": still(run.info, run._session.hub.lines(run.id)),
        "text/plain": repr(run),
    }


# -- cards ---------------------------------------------------------------------------------------------------------


def run_bundle(run: Run) -> Bundle:
    """Return the card that is shown for a run that is the last expression of a cell."""
    try:
        card = _run_card(run.info)
    except NotFound:
        return {"text/plain": repr(run)}
    return {RUN_CARD_MIME: {"run": run.id}, "text/html": card, "text/plain": repr(run)}


def cluster_bundle(cluster: Cluster) -> Bundle:
    """Return the card that is shown for a cluster that is the last expression of a cell."""
    try:
        info = cluster.info
    except NotFound:
        info = ClusterInfo(name=cluster.name, kind="", state=ClusterState.STOPPED)
    return {CLUSTER_MIME: {"name": cluster.name}, "text/html": _cluster_card(info), "text/plain": repr(cluster)}


def _run_card(info: RunInfo) -> str:
    rows = [f"{wording.MARKS.get(info.state, '')} {info.state.value}", wording.jobs(info.jobs)]
    if info.progress.epochs:
        rows.append(f"epoch {info.progress.epoch}/{info.progress.epochs}")
    elif info.progress.total:
        rows.append(f"{info.progress.done}/{info.progress.total} {info.progress.unit}s")
    if info.started and info.ended:
        rows.append(duration(info.ended - info.started))
    metrics = " · ".join(f"{name} {wording.metric_value(name, value)}" for name, value in info.headline.items())
    notes = [info.message] if info.message and info.state is not RunState.SUCCEEDED else []
    notes += info.not_finite.values()
    return _card(info.name, info.state.value, " · ".join(filter(None, rows)), [metrics, *notes], info.sparkline)


def _cluster_card(info: ClusterInfo) -> str:
    rows = [wording.cluster_state(info), info.kind, wording.jobs(info.jobs)]
    if threads := sum(host.threads for host in info.hosts):
        rows.append(f"{threads} core{'s' * (threads > 1)}")
    if memory := sum(host.memory_bytes for host in info.hosts):
        rows.append(bytes_(memory))
    if info.active_runs:
        rows.append(f"{info.active_runs} run{'s' * (info.active_runs > 1)} under way")
    more = [info.incompatible, info.message, *info.warnings, *info.notes]
    return _card(info.name, info.state.value, " · ".join(filter(None, rows)), more, [])


def _card(title: str, state: str, line: str, more: list[str], values: list[float]) -> str:
    """Return a card in plain HTML, with user text (names, messages) escaped."""
    extra = "".join(f'<div style="color: {_GREY}">{_text(text)}</div>' for text in more if text)
    return (
        '<div style="display: inline-block; padding: 6px 12px; border: 1px solid var(--jp-border-color2, #bdbdbd); '
        'border-radius: 4px; line-height: 1.5">'
        f'<span style="color: {_COLOURS.get(state, _GREY)}">●</span> <b>{_text(title)}</b> '
        f'<span style="margin-left: 8px; color: {_GREY}">{_text(line)}</span>{sparkline(values)}{extra}</div>'
    )


def sparkline(values: list[float], width: int = 120, height: int = 18) -> str:
    """Return a line through ``values`` as inline SVG of ``width`` x ``height`` pixels.

    For fewer than two values, return an empty string.
    """
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    points = " ".join(
        f"{1 + index * (width - 2) / (len(values) - 1):.1f},{1 + (high - value) / span * (height - 2):.1f}"
        for index, value in enumerate(values)
    )
    return (
        f'<svg width="{width}" height="{height}" style="margin-left: 12px; vertical-align: middle" aria-hidden="true">'
        f'<polyline points="{points}" fill="none" stroke="#0072b2" stroke-width="1.5"/></svg>'
    )


def _text(text: str) -> str:
    return html.escape(wording.without_control(text))
