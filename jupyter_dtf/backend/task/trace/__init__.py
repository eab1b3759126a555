"""Traces of what ran where: session steps by RunMetadata, functions and eager operations by TensorFlow's profiler."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from ....schema.launch import TaskSpec

if TYPE_CHECKING:
    from .trace_recorder import StepRecorder


def start(spec: TaskSpec, on_done: Callable[[], None]) -> StepRecorder:
    """Start recording a task's steps to be traced. ``on_done`` is called when the trace has been written."""
    from .trace_recorder import StepRecorder
    from .traced_sessions import wrap

    recorder = StepRecorder(spec, on_done)
    wrap(recorder)
    atexit.register(recorder.finish)
    return recorder


def marked(recorder: StepRecorder | None, step: int) -> AbstractContextManager[None]:
    """Return a context manager that marks its block as step ``step``, counted from 1; without a recorder, a no-op."""
    return nullcontext() if recorder is None else recorder.step(step)
