"""Tracing of a client whose functions run on other tasks' devices: it notifies those tasks when steps begin and end.

The notification is an operation placed on the other task that calls Python there. This needs no setup, reaches every
task that the client's functions reach, and when it has run, the other task's recorder is ready.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

# TensorFlow 2.21: the registry of functions of tf.py_function is not public.
from tensorflow.python.ops import script_ops

from ....schema.trace import task_of

HELLO, BEGIN, END = "jupyter_dtf_records_steps", "jupyter_dtf_step_begins", "jupyter_dtf_step_ends"


def listen(begin: Callable[[int, int], None], end: Callable[[int], None]) -> list[Any]:
    """Let clients of this task's devices call ``begin(step, count)`` and ``end(step)``, while the result is kept."""

    def on_begin(step: Any, count: Any) -> Any:
        begin(int(step), int(count))
        return np.int64(0)

    def on_end(step: Any, _: Any) -> Any:
        end(int(step))
        return np.int64(0)

    called = {HELLO: lambda *_: np.int64(0), BEGIN: on_begin, END: on_end}
    script_ops._py_funcs._funcs.update(called)
    return list(called.values())


def others(task: str) -> list[str]:
    """Return one device of each other task that records steps and that this process is a client of.

    ``task`` is this process's own, ``worker:1``.
    """
    found: dict[str, str] = {}
    for device in tf.config.list_logical_devices("CPU"):
        other = task_of(device.name)
        if other not in (task, "localhost:0"):
            found.setdefault(other, device.name)
    return [device for device in found.values() if _records(device)]


def _records(device: str) -> bool:
    try:
        tell(device, HELLO, 0)
    except tf.errors.OpError:  # a server of another run
        return False
    return True


def tell(device: str, what: str, step: int, count: int = 1) -> None:
    """Notify another task through its device that a step begins or ends. Returns after it has been handled there."""
    with tf.device(device):
        (heard,) = tf.raw_ops.PyFunc(input=[tf.constant(step), tf.constant(count)], token=what, Tout=[tf.int64])
    heard.numpy()
