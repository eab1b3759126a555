"""A queue of the changes to a run, for a thread that may process them slowly."""

from __future__ import annotations

import threading
import time
from collections import deque
from types import TracebackType
from typing import Any

from ..backend.records.hub import Hub
from ..schema.run import RunInfo


class RunChanges:
    """The summaries of a run while its ``with`` block runs: the current one, and one after every change.

    A summary that has not been taken yet is replaced by the next one if they differ only in numbers, such as metrics.
    Otherwise, a run that reports a hundred times a second would fill the memory of a reader that needs a second for
    each summary. No state, attempt, epoch, message or checkpoint is skipped.
    """

    def __init__(self, hub: Hub, run_id: str) -> None:
        self._hub = hub
        self._run_id = run_id
        self._left: deque[RunInfo | Exception] = deque()
        self._changed = threading.Condition()

    def __enter__(self) -> RunChanges:
        self._unsubscribe = self._hub.subscribe(self._note)
        self._note(self._run_id)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unsubscribe()

    def take(self, ends: float | None) -> RunInfo | None:
        """Wait for the next summary and return it. Return None once ``ends`` has passed, even if there is a summary.

        ``ends`` is in seconds on the monotonic clock; None: no limit. Raises any error that occurred when the summary
        was read.
        """
        with self._changed:
            left_s = None if ends is None else ends - time.monotonic()
            if (left_s is not None and left_s <= 0) or not self._changed.wait_for(lambda: self._left, left_s):
                return None
            info = self._left.popleft()
        if isinstance(info, Exception):
            raise info
        return info

    def _note(self, run_id: str) -> None:
        if run_id != self._run_id:
            return
        found: RunInfo | Exception
        try:
            found = self._hub.info(run_id)
        except Exception as error:  # otherwise the waiting thread would wait forever
            found = error
        with self._changed:
            if self._left and _without_figures(self._left[-1]) == _without_figures(found):
                self._left.pop()
            self._left.append(found)
            self._changed.notify()


def _without_figures(info: RunInfo | Exception) -> Any:
    if isinstance(info, Exception):
        return info
    tasks = [(task.task, task.state, task.attempt) for task in info.tasks]
    return info.state, info.message, tasks, info.progress.epoch, info.checkpoint, info.profile, len(info.alarms)
