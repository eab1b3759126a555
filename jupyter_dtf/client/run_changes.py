"""The changes of a run, in order: for a thread that may process them slowly, or for a function."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..backend.records.hub import Hub
from ..errors import NotFound
from ..schema.run import RunInfo, RunState


class _Changes:
    """Reads the summary of a run now and after every change, in whichever thread makes the change.

    Each summary is read with the lock held, so that none is recorded after a newer one.
    """

    def __init__(self, hub: Hub, run_id: str) -> None:
        self._hub = hub
        self._run_id = run_id
        self._changed = threading.Condition()
        self._unsubscribe: Callable[[], None] | None = None
        self._is_over = False

    def _record(self, found: RunInfo | Exception) -> None:
        """Record a summary, or the error that occurred when it was read. Called with the lock held."""
        raise NotImplementedError

    def _begin(self) -> None:
        unsubscribe = self._hub.subscribe(self._note)
        with self._changed:
            self._unsubscribe = unsubscribe
            is_over = self._is_over  # a change that was made in the meantime may have been the last one
        if is_over:
            self._end()
        self._note(self._run_id)

    def _end(self) -> None:
        with self._changed:
            self._is_over = True
            unsubscribe, self._unsubscribe = self._unsubscribe, None
        if unsubscribe is not None:
            unsubscribe()

    def _note(self, run_id: str) -> None:
        if run_id != self._run_id:
            return
        self._hub.look_for_marks()  # without the lock, because this calls subscribers, including this one
        with self._changed:
            if self._is_over:
                return
            try:
                found: RunInfo | Exception = self._hub.current(run_id)
            except Exception as error:
                found = error
            self._record(found)


class RunChanges(_Changes):
    """The summaries of a run while its ``with`` block runs: the current one, and one after every change.

    A summary that has not been taken yet is replaced by the next one if they differ only in numbers, such as metrics.
    Otherwise, a run that reports a hundred times a second would fill the memory of a reader that needs a second for
    each summary. No state, attempt, epoch, message or checkpoint is skipped.
    """

    def __init__(self, hub: Hub, run_id: str) -> None:
        super().__init__(hub, run_id)
        self._left: deque[RunInfo | Exception] = deque()

    def __enter__(self) -> RunChanges:
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

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

    def _record(self, found: RunInfo | Exception) -> None:
        if self._left and _without_figures(self._left[-1]) == _without_figures(found):
            self._left.pop()
        self._left.append(found)  # an error as well: otherwise the waiting thread would wait forever
        self._changed.notify()


class RunStates(_Changes):
    """Calls ``tell`` with a run's current state and each later one, in order and one at a time, until it has ended."""

    def __init__(self, hub: Hub, run_id: str, tell: Callable[[RunState], object]) -> None:
        super().__init__(hub, run_id)
        self._tell = tell
        self._left: deque[RunState] = deque()
        self._last: RunState | None = None
        self._is_telling = False

    def begin(self) -> None:
        """Call ``tell`` with the current state, in this thread, and from now on with each later one.

        Raises NotFound, and the errors of ``tell``.
        """
        self._begin()

    def _note(self, run_id: str) -> None:
        super()._note(run_id)
        self._tell_left()

    def _record(self, found: RunInfo | Exception) -> None:
        if isinstance(found, Exception):
            if isinstance(found, NotFound):
                self._end()
            raise found
        if found.state is not self._last:
            self._last = found.state
            self._left.append(found.state)

    def _tell_left(self) -> None:
        """Tell the states that are left, without the lock. If another thread is telling one, it tells these as well."""
        with self._changed:
            if self._is_telling or not self._left:
                return
            self._is_telling = True
            state = self._left.popleft()
        try:
            self._tell(state)
        finally:
            with self._changed:
                self._is_telling = False
                if state.is_final:
                    self._left.clear()
                    self._end()
            self._tell_left()  # even after an error: nobody else would tell the last state


def _without_figures(info: RunInfo | Exception) -> Any:
    if isinstance(info, Exception):
        return info
    tasks = [(task.task, task.state, task.attempt) for task in info.tasks]
    return info.state, info.message, tasks, info.progress.epoch, info.checkpoint, info.profile, len(info.alarms)
