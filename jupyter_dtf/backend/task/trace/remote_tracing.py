"""Tracing of functions that run on other tasks' devices: their client notifies these tasks when steps begin and end.

The notification is an operation placed on the other task that calls Python there. This needs no setup, and reaches
every task that the client's functions reach. Once the operation has run, the other task's recorder is ready.
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


def listen(identity: int, begin: Callable[[int, int, int, int], None], end: Callable[[int], None]) -> list[Any]:
    """Let clients of this task's devices call ``begin(step, count, last, profile)`` and ``end(step)``.

    They can do so while the caller keeps the returned list. ``identity`` is a number that identifies the run; clients
    of other runs are rejected.
    """

    def on_hello(numbers: Any) -> Any:
        if int(numbers[0]) != identity:
            raise ValueError("This is a task of another run")
        return np.int64(0)

    def on_begin(numbers: Any) -> Any:
        begin(*map(int, numbers))
        return np.int64(0)

    def on_end(numbers: Any) -> Any:
        end(int(numbers[0]))
        return np.int64(0)

    called = {HELLO: on_hello, BEGIN: on_begin, END: on_end}
    script_ops._py_funcs._funcs.update(called)
    return list(called.values())


def others(task: str, identity: int) -> list[str]:
    """Return one device of each other task of the run that can record steps, if this process uses the task's devices.

    ``task`` is the name of this task, such as ``worker:1``; ``identity`` is the number of the run.
    """
    found: dict[str, str] = {}
    for device in tf.config.list_logical_devices("CPU"):
        other = task_of(device.name)
        if other not in (task, "localhost:0"):
            found.setdefault(other, device.name)
    return [device for device in found.values() if _records(device, identity)]


def _records(device: str, identity: int) -> bool:
    try:
        tell(device, HELLO, identity)
    except tf.errors.OpError:  # servers of another run
        return False
    return True


def tell(device: str, what: str, *numbers: int) -> None:
    """Send a message to the task of ``device`` and wait until the task has handled it.

    ``what`` is HELLO, BEGIN or END; ``numbers`` are its arguments.
    """
    with tf.device(device):
        (heard,) = tf.raw_ops.PyFunc(input=[tf.constant(numbers, tf.int64)], token=what, Tout=[tf.int64])
    heard.numpy()
