"""Redraws a display of a run after changes, but no more often than a viewer can perceive."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable
from types import TracebackType

from ..schema.events import AnyEvent
from .run import Run

logger = logging.getLogger(__name__)


class Follower:
    """Calls ``draw()`` in a separate thread while its ``with`` block runs, and once more at the end."""

    def __init__(self, run: Run, draw: Callable[[], None], period_s: float) -> None:
        self._run_id = run.id
        self._hub = run._session.hub
        self._draw = draw
        self._period_s = period_s
        self._next_event = 0
        self._changed = threading.Event()
        self._done = threading.Event()
        # The thread has the caller's context variables, which a kernel uses to assign output to a cell.
        self._thread = threading.Thread(
            target=contextvars.copy_context().run, args=(self._follow,), name="dtf-follow", daemon=True
        )

    def new_events(self) -> list[AnyEvent]:
        """Return the run's events since the last call, without points."""
        new = self._hub.events(self._run_id, self._next_event - 1)
        if new:
            self._next_event = new[-1][0] + 1
        return [event for _, event in new]

    def __enter__(self) -> Follower:
        self._unsubscribe = self._hub.watch(self._run_id, self._changed)
        self._changed.set()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unsubscribe()
        self._done.set()
        self._changed.set()
        self._thread.join()

    def _follow(self) -> None:
        try:
            while not self._done.is_set():
                self._changed.wait()
                self._changed.clear()
                self._draw()
                self._done.wait(self._period_s)
            self._draw()
        except Exception as error:  # a failing display must not put a traceback into the user's output
            logger.warning("Stopped showing the run %s: %s: %s", self._run_id, type(error).__name__, error)
