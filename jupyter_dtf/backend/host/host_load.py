"""CPU and memory usage of a host and its tasks."""

from __future__ import annotations

import time
from collections.abc import Iterable

import psutil

from .host_task import HostTask


class HostLoad:
    """Measures this process and the tasks' processes, and adds each task's usage to the task's own points."""

    def __init__(self) -> None:
        self.cores = 0.0
        self.memory_bytes = 0
        self._process = psutil.Process()
        self._cpu_seconds: dict[int, float] = {}
        self._shared_bytes: dict[int, int] = {}

    def read(self, seconds: float, tasks: Iterable[HostTask]) -> None:
        """Measure the host and its tasks. ``seconds`` is the time since the last reading."""
        cores, memory = self._usage(self._process, seconds)
        for task in tasks:
            if task.pid and (used := self._of_task(task, seconds)):
                cores += used[0]
                memory += used[1]
        self.cores, self.memory_bytes = round(cores, 3), memory

    def forget(self, pid: int) -> None:
        """Drop the data about a process that has ended, because its id may be reused."""
        for readings in (self._cpu_seconds, self._shared_bytes):
            readings.pop(pid, None)

    def _of_task(self, task: HostTask, seconds: float) -> tuple[float, int] | None:
        try:
            process = psutil.Process(task.pid)
            cores, memory = self._usage(process, seconds)
        except psutil.Error:
            return None
        task.memory_bytes = memory
        task.report(round(time.time() - process.create_time(), 1), {"cpu": round(cores, 3), "memory_bytes": memory})
        return cores, memory

    def _usage(self, process: psutil.Process, seconds: float) -> tuple[float, int]:
        """Return the average number of cores used since the last reading, and the private memory in bytes.

        A forked task shares most of its memory with the warm process. The shared amount is read once, because reading
        it takes the kernel ten milliseconds, and is subtracted from then on.
        """
        times = process.cpu_times()
        used = times.user + times.system
        cores = max(0.0, used - self._cpu_seconds.get(process.pid, used)) / seconds
        self._cpu_seconds[process.pid] = used
        resident = process.memory_info().rss
        if process.pid not in self._shared_bytes:
            full = process.memory_full_info()
            self._shared_bytes[process.pid] = full.rss - getattr(full, "pss", full.rss)
        return cores, max(0, resident - self._shared_bytes[process.pid])
