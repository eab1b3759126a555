"""What a host tells its controller every two seconds: its machine, its tasks, and what is wrong with them."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import psutil
from distributed import Worker

from ...schema import protocol
from ...schema.base import to_plain
from ...schema.hosts import host_name
from ...schema.machines import HostInfo
from ..kinds.base import SLOTS
from ..machine import paths
from ..machine.figures import Figures
from ..machine.gpu_sensors import GpuSensors
from ..machine.gpus import read_gpus
from ..machine.processes import stat_of
from ..planning.host_findings import worse
from .host_checks import HostChecks
from .host_load import HostLoad
from .host_run import HostRun
from .preemption_notice import Notice
from .warm_keeper import WarmKeeper

logger = logging.getLogger(__name__)

SAMPLE_INTERVAL_S = 2.0
"""The interval in seconds between two readings of the CPU time and memory of the host and its tasks."""


class HostReport:
    """Reads the state of a host and passes it to ``send(message)``."""

    def __init__(
        self,
        worker: Worker,
        runs: Mapping[str, HostRun],
        versions: Mapping[str, str],
        *,
        warm: WarmKeeper,
        load: HostLoad,
        notice: Notice,
        checks: HostChecks,
        send: Callable[[dict[str, Any]], None],
    ) -> None:
        self._worker = worker
        self._runs = runs
        self._versions = versions
        self._warm = warm
        self._load = load
        self._notice = notice
        self._checks = checks
        self._send = send
        self._figures, self._sensors = Figures(), GpuSensors()
        stat = stat_of(os.getpid())
        self._identity = [os.getpid(), stat.started if stat is not None else 0]

    def tell(self, seconds: float = 0.0) -> None:
        """Send the host's state: its info, load, warnings and live tasks.

        If ``seconds`` (the time since the last reading) is not 0, the machine's figures are read and sent as well.
        """
        if seconds:
            self._load.read(seconds, [task for run in self._runs.values() for task in run.alive])
        cpu, memory_bytes = self._load.cores, self._load.memory_bytes
        gpus = self._sensors.completed(read_gpus())
        if seconds:
            self._sensors.begin([gpu.id for gpu in gpus])  # takes a while, so the result is sent with the next figures
        figures = self._figures.read(seconds, cpu, memory_bytes, gpus) if seconds else {}
        limit = self._worker.memory_manager.memory_limit
        info = HostInfo(
            name=host_name(self._worker.name),
            address=self._worker.address,
            machine=paths.machine_name(),
            threads=self._worker.state.nthreads,
            memory_bytes=int(limit or psutil.virtual_memory().total),
            cpu=cpu,
            memory_used_bytes=memory_bytes,
            gpus=gpus,
            warm=self._warm.is_ready,
            slots=int(self._worker.state.total_resources.get(SLOTS, 0)),
            unguarded=self._warm.unguarded,
        )
        tasks = [task for run in self._runs.values() for task in run.alive]
        now = asyncio.get_running_loop().time()
        self._send(
            {
                "op": "dtf_host",
                "info": to_plain(info),
                "speech": to_plain(protocol.ours()),
                "versions": self._versions,
                "process": self._identity,
                "warnings": self._warm.warnings,
                "leaving": self._notice.why,
                "findings": to_plain(worse(self._checks.findings())),
                "alive": [task.spec.id for task in tasks],
                "quiet": to_plain([quiet for task in tasks if (quiet := task.quiet(now)) is not None]),
                "paces": to_plain([pace for task in tasks if (pace := task.pace) is not None]),
                "figures": figures,
                "time": time.time(),
            }
        )

    async def sample(self) -> None:
        """Read the load of the host and its tasks periodically, because CPU usage can only be measured over an
        interval.
        """
        loop = asyncio.get_running_loop()
        before = loop.time()
        while True:
            await asyncio.sleep(SAMPLE_INTERVAL_S)
            now = loop.time()
            try:
                await self._checks.look()
                now = loop.time()
                self.tell(now - before)
            except Exception:  # the next report still shows that this host is alive
                logger.exception("The load of this host could not be read")
            before = now
