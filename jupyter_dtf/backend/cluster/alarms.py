"""The alarms that a user has requested for a run (``schema/notify.py``), about its epochs and its hosts. No I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...schema.events import EpochEnded
from ...schema.machines import HostInfo
from ...schema.metrics import VALIDATION, direction
from ...schema.notify import IDLE, MEMORY, NO_IMPROVEMENT, Notify
from ...schema.run import RunState
from ...schema.sizes import bytes_, duration, number
from ..planning.launch_plan import PlannedTask

IDLE_GPU = 0.02
"""A GPU with a lower utilization (from 0 to 1) counts as idle."""
IDLE_CORES = 0.1
"""A host counts as idle if it and its tasks together use fewer cores than this."""
QUIET = Notify(nan=False, idle_s=None, memory=None, end=False)


class Word(NamedTuple):
    """An alarm to raise."""

    about: str
    title: str
    text: str = ""
    task: str = ""


class Alarms:
    """The alarms of one run. Each is raised once, and again if its condition ends and later recurs."""

    def __init__(self, wanted: Notify | None) -> None:
        self.wanted = wanted or QUIET
        self._best = math.nan
        self._epoch = -1
        self._epochs = 0  # without improvement
        self._knows_metric = False
        self._idle_since: dict[str, float] = {}
        self._told: set[str] = set()

    def epoch(self, event: EpochEnded) -> Word | None:
        """Return the alarm that the end of an epoch raises, or None. An epoch repeated after a loss is counted once."""
        wanted = self.wanted.no_improvement
        if wanted is None or event.epoch <= self._epoch:
            return None
        self._epoch = event.epoch
        loss = VALIDATION + "loss"
        metric = self.wanted.metric or (loss if loss in event.logs else "loss")
        value = event.logs.get(metric)
        if value is None:
            return self._unknown(metric, event)
        sign = direction(metric) or -1
        if sign * value > sign * self._best or (math.isnan(self._best) and not math.isnan(value)):
            self._best, self._epochs = value, 0
            return None
        self._epochs += 1
        if self._epochs != wanted:
            return None
        title = f"{metric} has not improved for {wanted} epoch{'s' * (wanted != 1)}"
        best = "it was never a number" if math.isnan(self._best) else f"the best was {number(self._best)}"
        return Word(NO_IMPROVEMENT, title, f"It is {number(value)}; {best}")

    def _unknown(self, metric: str, event: EpochEnded) -> Word | None:
        """Return an alarm that epochs do not report the watched metric, or None if this alarm was returned before."""
        if self._knows_metric:
            return None
        self._knows_metric = True
        return Word(NO_IMPROVEMENT, f"There is no metric {metric} to watch", f"Epochs report {', '.join(event.logs)}")

    def machines(
        self, state: RunState, planned: Iterable[PlannedTask], hosts: Mapping[str, HostInfo], now: float
    ) -> list[Word]:
        """Return new alarms about the hosts of a run's tasks. Must be called at intervals.

        ``now`` is the time of a monotonic clock, in seconds.
        """
        if state is not RunState.RUNNING or (self.wanted.idle_s is None and self.wanted.memory is None):
            self._idle_since.clear()
            return []
        found: list[Word] = []
        seen: set[str] = set()
        for task in planned:
            if (host := hosts.get(task.host.address)) is None:
                continue
            if host.address not in seen:
                seen.add(host.address)
                found += self._memory(host)
            found += self._idle(task, host, now)
        return found

    def _memory(self, host: HostInfo) -> list[Word]:
        most = self.wanted.memory
        key = f"{MEMORY} {host.address}"
        if most is None or not host.memory_bytes or host.memory_used_bytes <= most * host.memory_bytes:
            self._told.discard(key)
            return []
        share = host.memory_used_bytes / host.memory_bytes
        text = f"The host and its tasks use {bytes_(host.memory_used_bytes)} of {bytes_(host.memory_bytes)}"
        return self._once(key, Word(MEMORY, f"{share:.0%} of the memory of host {host.name} is in use", text))

    def _idle(self, task: PlannedTask, host: HostInfo, now: float) -> list[Word]:
        if (limit_s := self.wanted.idle_s) is None or task.job == "ps":  # a parameter server always waits for others
            return []
        own = [gpu for gpu in host.gpus if gpu.id in task.gpus.gpus]
        devices = {f"GPU {gpu.index}": gpu.utilization < IDLE_GPU for gpu in own} or {"CPU": host.cpu < IDLE_CORES}
        found: list[Word] = []
        for device, is_idle in devices.items():
            key = f"{IDLE} {task.task} {device}"
            if not is_idle:
                self._idle_since.pop(key, None)
                self._told.discard(key)
                continue
            seconds = now - self._idle_since.setdefault(key, now)
            if seconds >= limit_s:
                title = f"The {device} of {task.task} has been idle for {duration(seconds)}"
                found += self._once(key, Word(IDLE, title, f"On host {host.name}", task.task))
        return found

    def _once(self, key: str, word: Word) -> list[Word]:
        if key in self._told:
            return []
        self._told.add(key)
        return [word]
