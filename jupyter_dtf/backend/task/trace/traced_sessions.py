"""Traces the steps of a program's own sessions by wrapping ``Session.run``."""

from __future__ import annotations

import threading
from typing import Any

import tensorflow as tf

from . import session_trace as traced
from .step_stats import rows
from .trace_recorder import StepRecorder


def wrap(recorder: StepRecorder) -> None:
    """Trace the recorder's steps of every session in this process.

    A step is one call of ``Session.run``, counted from 1, or, if the program marks its steps, everything within one.
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
            step = recorder.current if recorder.marked else calls
        if step is None or not recorder.first <= step <= recorder.last:
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
        if not recorder.marked and step == recorder.last:
            recorder.finish()
        return values

    base.run = run
