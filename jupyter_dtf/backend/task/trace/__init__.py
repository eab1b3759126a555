"""Traces, which show the operations that ran, when, and on which devices.

Session steps are traced with RunMetadata, functions and eager operations with TensorFlow's profiler.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from ....schema.events import TracedSteps
from ....schema.launch import TaskSpec
from .tracer import Tracer


def start(
    spec: TaskSpec, on_done: Callable[[], None], tell: Callable[[TracedSteps], None] = lambda event: None
) -> Tracer:
    """Return the tracer of a task, which records the steps given in ``spec`` and those requested later.

    ``on_done`` is called when the steps in ``spec`` have been written, or when the task ends. ``tell`` is
    called with an event at each stage of a later request.
    """
    tracer = Tracer(spec, on_done, tell)
    atexit.register(tracer.finish)
    return tracer


def marked(tracer: Tracer | None, step: int) -> AbstractContextManager[None]:
    """Return a context manager that marks its block as step ``step``, counted from 1; or, without a tracer, a no-op."""
    return nullcontext() if tracer is None else tracer.step(step)
