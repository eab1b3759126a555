"""The kind ``local``: Dask workers on this machine."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from ...schema.api import FieldInfo
from ...schema.hosts import HostDesign
from ..machine import paths
from ..machine.gpus import read_gpus
from .base import Kind


class LocalKind(Kind):
    """The kind ``local``: Dask workers on this machine."""

    kind = "local"
    title = "This machine"
    is_here = True

    def missing(self) -> str:
        if not sys.platform.startswith("linux"):
            return "Tasks are forked from a warm process, which needs Linux"
        if importlib.util.find_spec("tensorflow") is None:
            return "TensorFlow is not installed: pip install jupyter-dtf[cpu] or jupyter-dtf[gpu]"
        return ""

    def fields(self) -> list[FieldInfo]:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return [
            FieldInfo(
                name="hosts",
                title="Dask workers",
                type="integer",
                default=1,
                minimum=1,
                maximum=64,
                counts_hosts=True,
                help="Processes that start tasks. One suffices for any number of tasks; more are for Dask's own work.",
            ),
            FieldInfo(
                name="threads_per_host",
                title="Threads per Dask worker",
                type="integer",
                default=0,
                minimum=0,
                maximum=1024,
                help=f"Divided among the tasks of a run. 0: this machine's {cores} cores divided among the workers.",
            ),
            FieldInfo(
                name="memory_per_host_bytes",
                title="Memory per Dask worker",
                type="bytes",
                default=0,
                minimum=0,
                help="Dask's limit for its own data. 0: this machine's memory divided among the workers.",
            ),
        ]

    async def create(self, options: Mapping[str, Any], security: Any, directory: Path) -> Any:
        from .dask_http import SilentNanny, SilentScheduler
        from .durable_cluster import DurableCluster

        hosts = options["hosts"]
        cores = len(os.sched_getaffinity(0))
        cluster = DurableCluster(
            n_workers=0,
            threads_per_worker=options["threads_per_host"] or max(1, cores // hosts),
            memory_limit=options["memory_per_host_bytes"] or f"{1 / hosts:.6f}",
            host="127.0.0.1",
            dashboard_address=None,
            worker_class=SilentNanny,
            security=security,
            asynchronous=True,
            local_directory=str(directory),
        )
        cluster.scheduler_spec["cls"] = SilentScheduler  # LocalCluster has no argument for this
        # Dask intends this method to be overridden.
        cluster._new_worker_name = lambda number: local_host_name(number, hosts)  # type: ignore[method-assign]
        return await cluster

    def hosts(self, options: Mapping[str, Any], jobs: Mapping[str, int]) -> int:
        return int(options["hosts"])

    def expected_hosts(self, options: Mapping[str, Any]) -> list[HostDesign]:
        hosts = options["hosts"]
        cores, memory = len(os.sched_getaffinity(0)), psutil.virtual_memory().total
        return [
            HostDesign(
                name=local_host_name(number, hosts),
                cpus=options["threads_per_host"] or max(1, cores // hosts),
                memory_bytes=options["memory_per_host_bytes"] or memory // hosts,
                gpus=[gpu.memory_bytes for gpu in read_gpus()],
            )
            for number in range(hosts)
        ]


def local_host_name(number: int, hosts: int) -> str:
    """Return the name of a host on this machine: the machine's name, with a number if there are several ``hosts``."""
    machine = paths.machine_name()
    return machine if hosts == 1 and number == 0 else f"{machine}-{number}"
