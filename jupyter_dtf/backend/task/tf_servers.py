"""TensorFlow's servers in a task: guarded, noticed when they start, and up for as long as another task may need them.

A session spans every server of its cluster and hangs when one is gone, so a task whose program has ended keeps its
server up until all have (state ``finished``). ``join()``, which in TensorFlow never returns, returns when no task of
the run works any more (state ``serving`` meanwhile), so that programs written as one function, or as the scripts of
2016, come to an end. It is all the same who starts the server: ``ctx.server``, or the program itself.

A worker whose chief has not initialized the variables looks again after 30 s, where ``MonitoredTrainingSession`` and
``Supervisor`` are left as they are. The tasks of a gang start together, so here it looks every half second.
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
        self._started: list[Any] = []  # kept, or TensorFlow would stop them with the program's last reference

    def watch(self) -> None:
        """From now on know of every ``tf.distribute.Server`` of this process, and guard what listens."""
        self._ports.install()
        start = tf.distribute.Server.start

        def started(server: Any) -> None:
            start(server)
            self._started.append(server)

        tf.distribute.Server.start = started
        tf.distribute.Server.join = lambda server: self._join()
        _look_often()

    def keep_up(self) -> None:
        """The program has ended: wait until nobody can need its servers any more."""
        if self._started or serves_collectives():
            self._wait(TaskState.FINISHED)

    def _warn(self, title: str, text: str) -> None:
        """Said once by all tasks of a machine, whichever starts its server first."""
        told = self._ctx.shared_dir / f"told-{zlib.crc32(title.encode()):08x}"
        with contextlib.suppress(FileExistsError):
            told.touch(mode=0o600, exist_ok=False)
            self._ctx.note("warning", title, text)

    def _on_refused(self, who: str) -> None:
        self._ctx.note(
            "warning",
            f"A connection to TensorFlow's server was turned away ({who})",
            "Only your own processes on this machine get through to it, and the other machines of the run. Somebody "
            "else has tried, or a program of yours from another machine, which reaches it through an SSH tunnel.",
        )

    def _join(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._wait(TaskState.SERVING)
        else:  # the program itself goes on
            self._ctx.work_done.wait()

    def _wait(self, state: TaskState) -> None:
        if not self._ctx.work_done.is_set():
            self._recorder.emit(TaskChanged(time=time.time(), task=self._ctx.task, state=state))
            self._ctx.work_done.wait()


def serves_collectives() -> bool:
    """Whether this process serves its part of TensorFlow's collectives.

    They fetch: a task that has its sum may still be asked for the part of it that another one has not fetched yet.
    """
    # TensorFlow 2.21: the runtime context has no public API for this.
    from tensorflow.python.eager import context

    return context.context()._collective_ops_server_def is not None


def _look_often() -> None:
    """Limit the time between two looks for variables that another task's session initializes."""
    manager = tf.compat.v1.train.SessionManager
    init, signature = manager.__init__, inspect.signature(manager.__init__)

    def limited(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        bound.arguments["recovery_wait_secs"] = min(_MOST_RECOVERY_WAIT_S, bound.arguments["recovery_wait_secs"])
        init(*bound.args, **bound.kwargs)

    manager.__init__ = limited
