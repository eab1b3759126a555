"""TensorFlow servers in a task: guarded, detected when they start, and kept running while other tasks may need them.

A session spans all servers of its cluster and hangs when one is gone. So a task whose program has ended keeps its
server running until all programs have ended (state ``finished``). ``join()``, which never returns in TensorFlow, here
returns when no task of the run is working any more (the task's state is ``serving`` while it waits), so that programs
written as one function, or in the style of scripts from 2016, terminate. This applies to servers that ``ctx.server``
starts and to those that the program starts.

By default, ``MonitoredTrainingSession`` and ``Supervisor`` make a worker check only every 30 s whether the chief has
initialized the variables. The tasks of a gang start together, so here the interval is half a second.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
import time
import zlib
from typing import Any

import tensorflow as tf

from ...schema.events import TaskChanged
from ...schema.run import TaskState
from .context import Context
from .ports.closed_ports import ClosedPorts
from .recorder import Recorder

_MOST_RECOVERY_WAIT_S = 0.5


class TaskServers:
    """The servers that this process has started."""

    def __init__(self, ctx: Context, recorder: Recorder) -> None:
        self._ctx = ctx
        self._recorder = recorder
        self._ports = ClosedPorts(self._warn, self._on_refused)
        ctx.ports = self._ports
        self._started: list[Any] = []  # keeps references: TensorFlow stops a server when its last reference is gone

    def watch(self) -> None:
        """Start tracking every ``tf.distribute.Server`` of this process and guarding its port."""
        self._ports.install()
        start = tf.distribute.Server.start

        def started(server: Any) -> None:
            start(server)
            self._started.append(server)

        tf.distribute.Server.start = started
        tf.distribute.Server.join = lambda server: self._join()
        _look_often()

    def keep_up(self) -> None:
        """Wait, after the program has ended, until no other task can need its servers any more."""
        if self._started or serves_collectives():
            self._wait(TaskState.FINISHED)

    def _warn(self, title: str, text: str) -> None:
        """Emit a warning, unless another task on this machine has already emitted it."""
        told = self._ctx.shared_dir / f"told-{zlib.crc32(title.encode()):08x}"
        with contextlib.suppress(FileExistsError):
            told.touch(mode=0o600, exist_ok=False)
            self._ctx.note("warning", title, text)

    def _on_refused(self, who: str) -> None:
        self._ctx.note(
            "warning",
            f"A connection to TensorFlow's server was rejected ({who})",
            "Only your own processes on this machine and the other machines of the run can connect to it. The "
            "connection came from another user, or from one of your programs on a machine outside the run. Such a "
            "program can use an SSH tunnel instead.",
        )

    def _join(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._wait(TaskState.SERVING)
        else:  # the main program is still running
            self._ctx.work_done.wait()

    def _wait(self, state: TaskState) -> None:
        if not self._ctx.work_done.is_set():
            self._recorder.emit(TaskChanged(time=time.time(), task=self._ctx.task, state=state))
            self._ctx.work_done.wait()


def serves_collectives() -> bool:
    """Return whether this process serves its part of TensorFlow's collectives.

    Tasks pull parts from each other: a task that already has its sum may still have to serve a part that another task
    has not pulled yet.
    """
    # TensorFlow 2.21: the runtime context has no public API for this.
    from tensorflow.python.eager import context

    return context.context()._collective_ops_server_def is not None


def _look_often() -> None:
    """Limit the interval between checks for variables that another task's session initializes."""
    manager = tf.compat.v1.train.SessionManager
    init, signature = manager.__init__, inspect.signature(manager.__init__)

    def limited(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        bound.arguments["recovery_wait_secs"] = min(_MOST_RECOVERY_WAIT_S, bound.arguments["recovery_wait_secs"])
        init(*bound.args, **bound.kwargs)

    manager.__init__ = limited
