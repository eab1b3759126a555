"""What ran where: steps of sessions by RunMetadata, functions and eager operations by TensorFlow's profiler."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from ....schema.launch import TaskSpec

if TYPE_CHECKING:
    from .trace_recorder import StepRecorder


def start(spec: TaskSpec, on_done: Callable[[], None]) -> StepRecorder:
    """Record the steps that a task is to trace. ``on_done`` is called when all is written, at its end at the latest."""
    from .trace_recorder import StepRecorder
    from .traced_sessions import wrap

    recorder = StepRecorder(spec, on_done)
    wrap(recorder)
    atexit.register(recorder.finish)
    return recorder


def marked(recorder: StepRecorder | None, step: int) -> AbstractContextManager[None]:
    """What runs inside is step ``step``, counted from 1; None records nothing."""
    return nullcontext() if recorder is None else recorder.step(step)
