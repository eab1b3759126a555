"""Traces the steps of a program's own sessions by wrapping ``Session.run``."""

from __future__ import annotations

import gc
import threading
from typing import Any, Protocol

import tensorflow as tf

from . import session_trace as traced
from .step_stats import rows
from .trace_recorder import StepRecorder


def are_open() -> bool:
    """Return whether this process has an open session, by inspecting all objects that the garbage collector tracks."""
    base = next(kind for kind in tf.compat.v1.Session.__mro__ if "run" in vars(kind))
    return any(issubclass(type(each), base) and not getattr(each, "_closed", True) for each in gc.get_objects())


class Steps(Protocol):
    """The part of ``Tracer`` that is used here."""

    counts_calls: bool
    has_steps: bool
    current: int | None
    recorder: StepRecorder | None

    def take(self, step: int) -> None:
        """Begin recording requested steps, no earlier than at ``step``."""


def wrap(tracer: Steps) -> None:
    """Make every session of this process trace the tracer's steps.

    Each call to ``Session.run`` is a step, counted from 1 since this function was called. If the program marks its
    steps, calls belong to the step in which they run instead.
    """
    base = next(kind for kind in tf.compat.v1.Session.__mro__ if "run" in vars(kind))
    original = base.run
    lock = threading.Lock()
    calls = 0
    warned: set[str] = set()

    def run(self: Any, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        nonlocal calls
        with lock:
            calls += 1
            counts = tracer.counts_calls and not tracer.has_steps
            step = calls if counts else tracer.current
        if counts:
            tracer.take(calls)
        recorder = tracer.recorder
        if recorder is None or step is None or not recorder.first <= step <= recorder.last:
            return original(self, fetches, feed_dict, options, run_metadata)
        metadata = tf.compat.v1.RunMetadata() if run_metadata is None else run_metadata
        here = not self.sess_str  # a session without a server
        values = original(self, fetches, feed_dict, traced.full_trace(options, profiling=here), metadata)
        data = rows(metadata, step, recorder.task)
        found = traced.warnings(metadata, self.graph, fetches, feed_dict)
        with lock:
            data.warnings = [warning for warning in found if warning not in warned]
            warned.update(data.warnings)
        recorder.add(data)
        if counts and step == recorder.last:
            recorder.finish()
        return values

    base.run = run
