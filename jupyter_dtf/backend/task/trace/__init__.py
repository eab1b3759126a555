"""What ran where: steps of sessions by RunMetadata, functions and eager operations by TensorFlow's profiler."""

from __future__ import annotations

import atexit
from pathlib import Path

from ....schema.launch import TaskSpec
from .recorder import StepRecorder


def start(spec: TaskSpec) -> StepRecorder:
    """Record the steps that a task is to trace. What there is by its end is written then, at the latest."""
    from .sessions import wrap

    recorder = StepRecorder(spec.trace_steps, Path(spec.run_dir), spec.task)
    wrap(recorder)
    atexit.register(recorder.finish)
    return recorder
