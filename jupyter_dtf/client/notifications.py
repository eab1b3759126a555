"""Delivers notifications about a run by calling the user's function or command while this process is running."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from typing import TypeVar

from ..errors import Unavailable
from ..schema.events import Note
from ..schema.notify import END, Alarm, Notify
from ..schema.run import RunState
from ..schema.run_options import RunOptions
from .run import Run

AnyRun = TypeVar("AnyRun", bound=Run)

COMMAND_S = 60.0
"""Time limit for a command, in seconds."""
RETRY_S = 1.0
"""Delay before retrying after the run could not be read, in seconds."""
logger = logging.getLogger(__name__)


def told(run: AnyRun, options: RunOptions) -> AnyRun:
    """Start delivering the run's notifications in this process, if its options request any. Return the run."""
    if options.notify is not None and (options.notify.call is not None or options.notify.words):
        run.told = Told(run, options.notify).thread
    return run


class Told:
    """Follows the alarms of one run in a separate thread until the run has ended."""

    def __init__(self, run: Run, notify: Notify) -> None:
        self._run_id = run.id
        self._session = run._session
        self._hub = run._session.hub
        self._notify = notify
        self._changed = threading.Event()
        self._next_event = 0
        self._unsubscribe = self._hub.watch(self._run_id, self._changed)
        self._changed.set()
        self.thread = threading.Thread(target=self._follow, name="dtf-told", daemon=True)
        self.thread.start()

    def _follow(self) -> None:
        try:
            is_over = False
            while not is_over:
                self._changed.wait()
                self._changed.clear()
                try:
                    is_over = self._look()
                except Unavailable as error:  # a busy store or a full disk: try again
                    if self._session.is_closed:
                        raise
                    logger.info("The alarms of the run %s could not be read, trying again: %s", self._run_id, error)
                    time.sleep(RETRY_S)
                    self._changed.set()
        except Exception as error:  # the run was deleted, or the session is gone
            logger.warning("Stopped delivering notifications about the run %s: %s", self._run_id, error)
        finally:
            self._unsubscribe()

    def _look(self) -> bool:
        """Deliver new alarms. Return whether the run has ended. Raises NotFound, Unavailable."""
        info = self._hub.info(self._run_id)  # before reading events, so that all events before its end are included
        for seq, event in self._hub.events(self._run_id, self._next_event - 1):
            self._next_event = seq + 1
            if isinstance(event, Note) and event.alarm:
                self._tell(
                    Alarm(about=event.alarm, title=event.title, text=event.text, task=event.task, time=event.time)
                )
        if info.state is RunState.LOST and self._notify.end:  # the cluster can no longer report that the run has ended
            self._tell(Alarm(about=END, title=f"{info.name} is lost", text=info.message, time=time.time()))
        return info.state.is_final

    def _tell(self, alarm: Alarm) -> None:
        if self._notify.call is not None:
            try:
                self._notify.call(alarm)
            except Exception:
                logger.exception("The notification function of the run %s raised an error", self._run_id)
        if words := self._notify.words:
            environment = {**os.environ, "JUPYTER_DTF_RUN": self._run_id, "JUPYTER_DTF_ALARM": alarm.about}
            try:
                subprocess.run(
                    [*words, alarm.title],
                    stdin=subprocess.DEVNULL,
                    env=environment,
                    timeout=COMMAND_S,
                    check=True,
                )
            except (OSError, subprocess.SubprocessError) as error:
                logger.warning("The notification command of the run %s failed: %s", self._run_id, error)
