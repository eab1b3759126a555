"""Decides which steps are recorded: those requested at the start of a run, and those requested while it is running."""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ....schema.events import TracedSteps
from ....schema.launch import ProfileOrder, TaskSpec

if TYPE_CHECKING:
    from .trace_recorder import StepRecorder

logger = logging.getLogger(__name__)

_NOTHING = nullcontext()


class Tracer:
    """Tracks when the steps of a task begin and end, and records the requested steps.

    ``on_done`` is called when the steps requested at the start of the run have been written. ``tell`` is called with an
    event at each stage of a later request. All methods except ``ask`` must be called from the thread that executes the
    steps.
    """

    def __init__(self, spec: TaskSpec, on_done: Callable[[], None], tell: Callable[[TracedSteps], None]) -> None:
        from . import remote_tracing

        self._spec = spec
        self._on_done = on_done
        self._tell = tell
        self._lock = threading.Lock()
        self._order: ProfileOrder | None = None
        self._number = 0
        self.recorder: StepRecorder | None = None
        """The recorder that is recording steps, or waiting for its first step; usually None."""
        self.has_steps = False
        """Whether the beginning of a step has ever been marked."""
        self.counts_calls = True
        """Whether calls to ``Session.run`` count as steps until the beginning of a step is marked."""
        self.current: int | None = None
        """The current step; None between steps."""
        self._wraps_sessions = False
        self._identity = zlib.crc32(spec.run_id.encode()) >> 1
        self._listening = remote_tracing.listen(self._identity, self._begin_of_client, self.end)
        if spec.trace_steps:
            first, last = spec.trace_steps
            self._make(first, last, 0)
            self._wrap_sessions()

    @property
    def is_told_from_start(self) -> bool:
        """Whether the run was started to trace some of its steps."""
        return bool(self._spec.trace_steps)

    # -- requests -----------------------------------------------------------------------------------------------

    def ask(self, order: ProfileOrder) -> None:
        """Request a trace of the next steps. May be called from any thread."""
        from .traced_sessions import are_open

        self._wrap_sessions()
        self._say(order.number, "waits", has_steps=self.has_steps or (self.counts_calls and are_open()))
        with self._lock:
            if order.number > self._number:  # otherwise a client of this task's devices has already begun it
                self._order = order

    def break_off(self) -> None:
        """Stop recording, because the current step will be repeated in another attempt of the run."""
        with self._lock:
            self._order = None
        if self.recorder is not None:
            self._guarded(self.recorder, self.recorder.finish)
            self.recorder = None

    # -- steps --------------------------------------------------------------------------------------------------

    def step(self, step: int) -> AbstractContextManager[None]:
        """Return a context manager that marks its block as step ``step``, counted from 1."""
        if self.recorder is None and self._order is None:
            self.has_steps = True
            return _NOTHING
        return self._recorded(step)

    @contextmanager
    def _recorded(self, step: int) -> Iterator[None]:
        self.begin(step)
        try:
            yield
        finally:
            self.end(step)

    def begin(self, step: int, count: int = 1) -> None:
        """Mark the beginning of step ``step``, or of ``count`` steps that are executed as one."""
        self.has_steps = True
        self.current = step
        if self._order is not None:
            self.take(step + count)
        if (recorder := self.recorder) is not None:
            self._guarded(recorder, lambda: recorder.begin(step, count))

    def end(self, step: int) -> None:
        """Mark the end of step ``step``. After the last one, the trace is written."""
        self.current = None
        if (recorder := self.recorder) is not None:
            self._guarded(recorder, lambda: recorder.end(step))

    def finish(self) -> None:
        """Write the trace recorded so far, because the program's steps are over."""
        if (recorder := self.recorder) is not None:
            self._guarded(recorder, recorder.finish)

    def take(self, step: int) -> None:
        """Begin recording requested steps, no earlier than at ``step``, unless a recording is in progress."""
        with self._lock:
            order = self._order
            if order is None or (self.recorder is not None and self.recorder.is_under_way):
                return
            self._order = None
            first = max(order.first, step)
            self._make(first, first + order.steps - 1, order.number)
        self._say(order.number, "begun", has_steps=self.has_steps)

    # -- functions of a client, on this task's devices ----------------------------------------------------------

    def _begin_of_client(self, step: int, count: int, last: int, number: int) -> None:
        if self.recorder is None or (self.recorder.number, self.recorder.last) != (number, last):
            self.finish()
            with self._lock:
                if self._order is not None and self._order.number <= number:
                    self._order = None
                self._make(step, last, number)
            self._say(number, "begun")
        if (recorder := self.recorder) is not None:
            self._guarded(recorder, lambda: recorder.begin(step, count))

    # -- inside -------------------------------------------------------------------------------------------------

    def _make(self, first: int, last: int, number: int) -> None:
        from .trace_recorder import StepRecorder

        self._number = max(self._number, number)
        self.recorder = StepRecorder(self._spec, (first, last), self._written, number=number, identity=self._identity)

    def _written(self, recorder: StepRecorder) -> None:
        """Handle the completion of a recorder's trace."""
        if self.recorder is recorder:
            self.recorder = None
        if recorder.number == 0:
            self._on_done()
        else:
            first, last = recorder.found
            self._say(recorder.number, "left", first=first, last=last)

    def _guarded(self, recorder: StepRecorder, work: Callable[[], None]) -> None:
        """Call ``work``. If it fails for a profile requested later, abandon the profile instead of failing the run."""
        try:
            work()
        except Exception as error:
            if recorder.number == 0:
                raise
            logger.warning("Profiling was abandoned", exc_info=error)
            recorder.give_up()
            self.recorder = None
            self._say(recorder.number, "failed", message=f"{type(error).__name__}: {error!s:.300}")

    def _say(self, number: int, stage: str, **more: Any) -> None:
        if number:
            self._tell(TracedSteps(time=time.time(), task=self._spec.task, profile=number, stage=stage, **more))

    def _wrap_sessions(self) -> None:
        from .traced_sessions import wrap

        if not self._wraps_sessions:
            self._wraps_sessions = True
            wrap(self)
