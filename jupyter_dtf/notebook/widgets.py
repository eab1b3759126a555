"""A run as an ipywidget: live wherever ipywidgets are, without the JupyterLab extension."""

from __future__ import annotations

import base64
import html
import logging
import threading
from typing import TYPE_CHECKING, Any

import ipywidgets

from ..client import wording
from .still import still

if TYPE_CHECKING:
    from ..client.run import Run

logger = logging.getLogger(__name__)

_REFRESH_S = 0.5  # each refresh is a picture


class RunWidget(ipywidgets.VBox):
    """A bar, the newest metrics, the plots so far and a stop button. Follows the run until it has ended."""

    def __init__(self, run: Run, **options: Any) -> None:
        self._run = run
        self._hub = run._session.hub
        self._line = ipywidgets.HTML()
        self._bar = ipywidgets.IntProgress(min=0, layout=ipywidgets.Layout(width="240px"))
        self._stop = ipywidgets.Button(description="Stop", icon="stop", tooltip=f"Stop the run {run.info.name}")
        self._stop.on_click(lambda _button: run.stop())
        self._picture = ipywidgets.HTML()
        super().__init__([ipywidgets.HBox([self._bar, self._stop, self._line]), self._picture], **options)
        self._changed = threading.Event()
        self._changed.set()
        self._unsubscribe = self._hub.subscribe(lambda run_id: self._changed.set() if run_id == run.id else None)
        self._thread = threading.Thread(target=self._follow, name="dtf-widget", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the run has ended and that is shown. False after ``timeout_s``."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def __repr__(self) -> str:
        return f"<Widget of {self._run!r}>"

    def _follow(self) -> None:
        try:
            self._follow_to_the_end()
        except Exception as error:  # the kernel is ending
            logger.debug("The widget of %s is not drawn any more: %s", self._run.id, error)

    def _follow_to_the_end(self) -> None:
        pause = threading.Event()
        while True:
            self._changed.wait()
            self._changed.clear()
            if self._draw():
                self._unsubscribe()
                return
            pause.wait(_REFRESH_S)  # no more often than the eye can follow

    def _draw(self) -> bool:
        """Show the present state; returns whether it is the last."""
        from ..client.run import describe

        info = self._hub.info(self._run.id)
        progress, final = info.progress, info.state.is_final
        self._bar.max = progress.total or 1
        self._bar.value = progress.done if progress.total else int(final)
        self._bar.bar_style = {"succeeded": "success", "failed": "danger", "lost": "danger"}.get(info.state.value, "")
        self._line.value = html.escape(wording.without_control(describe(info)))
        self._stop.disabled = final
        picture = base64.b64encode(still(info, self._hub.lines(info.id)).encode()).decode()
        self._picture.value = f'<img alt="Metrics of the run" src="data:image/svg+xml;base64,{picture}">'
        return final
