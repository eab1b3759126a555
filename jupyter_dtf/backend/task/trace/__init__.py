"""Traces of what ran where: session steps by RunMetadata, functions and eager operations by TensorFlow's profiler."""

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
    """What records steps of a task: those that it is started to trace, and those that it is asked for later.

    ``on_done`` is called when the first are written, at the task's end at the latest; ``tell`` with the others' fate.
    """
    tracer = Tracer(spec, on_done, tell)
    atexit.register(tracer.finish)
    return tracer


def marked(tracer: Tracer | None, step: int) -> AbstractContextManager[None]:
    """What runs inside is step ``step``, counted from 1; None records nothing."""
    return nullcontext() if tracer is None else tracer.step(step)
