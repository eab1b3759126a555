"""Records the operations that run in this task during some steps, and saves the trace in the run's directory."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import tensorflow as tf

# TensorFlow 2.21: the runtime context has no public API for this.
from tensorflow.python.eager import context

from ....schema.launch import TaskSpec
from ....schema.trace import TraceData, leave_trace, merge
from . import placed, remote_tracing
from .device_names import plain
from .xplane import Window, rows


class StepRecorder:
    """Traces steps ``first`` to ``last`` of one task: functions and eager operations with TensorFlow's profiler.

    Starting from the step before the first, the graphs that run are collected, because only they contain the devices of
    operations. Traces of session steps are added with ``add``. ``on_done`` is called once, when the complete trace is
    written. All methods except ``add`` must be called from one thread. Other tasks of the run, which ``identity``
    identifies, record the same steps if this task's functions run on their devices. ``number`` is the number of the
    profile within the run.
    """

    def __init__(
        self,
        spec: TaskSpec,
        steps: tuple[int, int],
        on_done: Callable[[StepRecorder], None],
        *,
        number: int = 0,
        identity: int = 0,
    ) -> None:
        self.first, self.last = steps
        self.number = number
        self._spec = spec
        self._identity = identity
        self._on_done: Callable[[StepRecorder], None] | None = on_done
        self.task = f"/job:{spec.job_name}/task:{spec.task_index}"
        """The prefix of this task's device strings."""
        self._windows: list[Window] = []
        self._collecting = False
        self._profile_dir = ""
        self._others: list[str] = []
        self._lock = threading.Lock()
        self._parts: list[TraceData] = []

    @property
    def is_under_way(self) -> bool:
        """Whether a recording has begun but is not complete yet."""
        return self._on_done is not None and (self._collecting or bool(self._parts))

    @property
    def found(self) -> tuple[int, int]:
        """The first and last steps for which operations were recorded."""
        with self._lock:
            steps = {op.step for part in self._parts for op in part.ops}
        return min(steps, default=self.first), max(steps, default=self.last)

    def begin(self, step: int, count: int = 1) -> None:
        """Begin step ``step``, or ``count`` steps that are executed as one."""
        end = step + count
        if step > self.last or end < self.first:
            return
        if not self._collecting:
            self._collect()
            self._others = remote_tracing.others(self._spec.task, self._identity)
        if end > self.first:
            if not self._profile_dir:
                self._start_profile()
            for device in self._others:
                remote_tracing.tell(device, remote_tracing.BEGIN, step, count, self.last, self.number)
            self._windows.append(Window(step, time.time_ns(), 0))

    def end(self, step: int) -> None:
        """End step ``step``. After the last one, the trace is written."""
        if self._windows and self._windows[-1].end_ns == 0:
            self._windows[-1] = self._windows[-1]._replace(end_ns=time.time_ns())
            for device in self._others:
                remote_tracing.tell(device, remote_tracing.END, step)
        if step >= self.last:
            self.finish()

    def finish(self) -> None:
        """Write the trace, because the last step, or the program, has ended."""
        if self._profile_dir:
            self._add_profile()
        if self._collecting:
            self._stop_collecting()
        if self._parts and self._on_done is not None:
            on_done, self._on_done = self._on_done, None
            on_done(self)

    def give_up(self) -> None:
        """Stop recording, and discard the profile."""
        self._on_done = None
        if self._profile_dir:
            with suppress(Exception):  # stopping the profiler may be what failed
                tf.profiler.experimental.stop(save=False)
            shutil.rmtree(self._profile_dir, ignore_errors=True)
            self._profile_dir = ""
        if self._collecting:
            self._stop_collecting()

    def add(self, part: TraceData) -> None:
        """Add the trace of a session step, and write the whole trace so far."""
        with self._lock:
            self._parts.append(part)
            data = merge(self._parts)
            data.profile = self.number
            leave_trace(Path(self._spec.run_dir), self._spec.task, data)

    # -- inside -------------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        # A function's graphs are exported when it is instantiated, so force that to happen again.
        context.context().clear_kernel_cache()
        context.context().enable_run_metadata()
        self._collecting = True

    def _stop_collecting(self) -> None:
        context.context().disable_run_metadata()
        self._collecting = False

    def _start_profile(self) -> None:
        directory = tempfile.mkdtemp(prefix="profile-", dir=self._spec.task_dir or None)
        tf.profiler.experimental.start(directory)
        self._profile_dir = directory  # from here on, this recorder has to stop the profiler

    def _add_profile(self) -> None:
        from tensorflow.tsl.profiler.protobuf import xplane_pb2

        tf.profiler.experimental.stop()
        metadata = context.context().export_run_metadata()
        space = xplane_pb2.XSpace()
        for file in Path(self._profile_dir).rglob("*.xplane.pb"):
            space.MergeFromString(file.read_bytes())
        shutil.rmtree(self._profile_dir)
        self._profile_dir = ""
        devices = {plain(device.name, self.task) for device in tf.config.list_logical_devices()}
        own = [device for device in devices if device.startswith(f"{self.task}/")]
        other = own[0] if len(own) == 1 else self.task
        data = rows(space, self._windows, _devices(metadata, self.task), other, f"{self.task}/device:GPU:")
        data.warnings = _warnings(metadata, self.task)
        self.add(data)


def _devices(metadata: Any, task: str) -> dict[str, str]:
    """Return the device of each node of the functions that ran, keyed by the node's name. For a name that occurs on
    several devices, this is only the task.
    """
    found: dict[str, str] = {}
    doubtful = set()
    for function in metadata.function_graphs:
        for graph in function.partition_graphs:
            for node in graph.node:
                device = plain(node.device, task)
                if found.setdefault(node.name, device) != device:
                    doubtful.add(node.name)
    return {name: task if name in doubtful else device for name, device in found.items()}


def _warnings(metadata: Any, task: str) -> list[str]:
    """Return a sentence for each operation of a function that did not run as placed."""
    texts = [
        one.text
        for function in metadata.function_graphs
        for one in placed.displaced(function.pre_optimization_graph, function.partition_graphs, task=task)
    ]
    return list(dict.fromkeys(texts))  # a function may have been instantiated more than once
