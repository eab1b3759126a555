"""TensorFlow's servers in a task: noticed when they start, and up for as long as another task may need them.

A session spans every server of its cluster and hangs when one is gone, so a task whose program has ended keeps its
server up until all have (state ``finished``). ``join()``, which in TensorFlow never returns, returns when no task of
the run works any more (state ``serving`` meanwhile), so that programs written as one function, or as the scripts of
2016, come to an end. It is all the same who starts the server: ``ctx.server``, or the program itself.

A worker whose chief has not initialized the variables looks again after 30 s, where ``MonitoredTrainingSession`` and
``Supervisor`` are left as they are. The tasks of a gang start together, so here it looks every half second.
"""

from __future__ import annotations

import inspect
import re
import threading
import time
from typing import Any

import tensorflow as tf

from ...schema.events import TaskChanged
from ...schema.run import TaskState
from .context import Context
from .recorder import Recorder

_MOST_RECOVERY_WAIT_S = 0.5
_LOOPBACK = re.compile(r"grpc://(localhost|127\.[0-9.]+|\[::1\]):")


class TaskServers:
    """The servers that this process has started."""

    def __init__(self, ctx: Context, recorder: Recorder) -> None:
        self._ctx = ctx
        self._recorder = recorder
        self._started: list[Any] = []  # kept, or TensorFlow would stop them with the program's last reference

    def watch(self) -> None:
        """From now on know of every ``tf.distribute.Server`` of this process."""
        start = tf.distribute.Server.start

        def started(server: Any) -> None:
            start(server)
            self._on_start(server)

        tf.distribute.Server.start = started
        tf.distribute.Server.join = lambda server: self._join()
        _look_often()

    def keep_up(self) -> None:
        """The program has ended: wait until nobody can need its servers any more."""
        if self._started:
            self._wait(TaskState.FINISHED)

    def _on_start(self, server: Any) -> None:
        if not self._started and self._ctx.task_index == 0:
            self._ctx.note(
                "info" if _LOOPBACK.match(server.target) else "warning",
                f"TensorFlow's servers of job {self._ctx.job_name} have no authentication",
                f"They listen on every interface of their machines ({server.target} and its like): whoever reaches "
                "such a port can run graphs there, and read and write files. Keep them behind a firewall.",
            )
        self._started.append(server)

    def _join(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._wait(TaskState.SERVING)
        else:  # the program itself goes on
            self._ctx.work_done.wait()

    def _wait(self, state: TaskState) -> None:
        if not self._ctx.work_done.is_set():
            self._recorder.emit(TaskChanged(time=time.time(), task=self._ctx.task, state=state))
            self._ctx.work_done.wait()


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
