"""The kind ``cuda``: a Dask worker on this machine with some of its GPUs, and how tasks share them.

The settings are those of Dask-CUDA's workers, but that package is not used: its other features (memory pools, spilling
of Dask's own data, a CUDA context in each worker) do not affect tasks, which are separate processes, but would take GPU
memory from them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from ...errors import InvalidInput
from ...schema.api import FieldInfo
from ...schema.hosts import HostDesign
from ...schema.machines import GpuInfo
from ...schema.sizes import bytes_
from ..machine import paths
from ..machine.gpus import read_gpus
from ..planning.gpu_assignment import SHARED, share_of
from ..planning.task_defaults import TaskDefaults
from .local import LocalKind

_SWITCHES = {"nvlink": "NCCL_P2P_DISABLE", "infiniband": "NCCL_IB_DISABLE"}


class CudaKind(LocalKind):
    """The kind ``cuda``: this machine's GPUs."""

    kind = "cuda"
    title = "This machine's GPUs"

    def fields(self) -> list[FieldInfo]:
        here = ", ".join(f"{gpu.index} ({gpu.name})" for gpu in read_gpus())
        return [
            FieldInfo(
                name="gpus",
                title="GPUs",
                type="list",
                default=[],
                help=f"Numbers or UUIDs, in the order in which tasks get them. Empty: all. Here: {here or 'none'}.",
            ),
            FieldInfo(
                name="tasks_per_gpu",
                title="Tasks per GPU",
                type="integer",
                default=1,
                minimum=1,
                maximum=64,
                help="Several tasks on a GPU share its memory evenly, or each has the limit below.",
            ),
            FieldInfo(
                name="gpu_memory_bytes",
                title="GPU memory per task",
                type="bytes",
                default=0,
                minimum=0,
                help="The maximum memory that a task uses on its GPU. 0: as much as it needs, or its share.",
            ),
            FieldInfo(
                name="growth",
                title="Memory growth",
                type="boolean",
                default=True,
                help="A task that has a GPU to itself allocates memory as needed. Off: all of it at once.",
            ),
            FieldInfo(
                name="nvlink",
                title="NVLink",
                type="boolean",
                default=True,
                help="NCCL copies directly from GPU to GPU if possible. Off: through the machine's memory.",
            ),
            FieldInfo(
                name="infiniband",
                title="InfiniBand",
                type="boolean",
                default=True,
                help="NCCL uses InfiniBand if available. Off: TCP.",
            ),
            FieldInfo(
                name="threads_per_host",
                title="Threads",
                type="integer",
                default=0,
                minimum=0,
                maximum=1024,
                help="Divided among the tasks of a run. 0: this machine's cores.",
            ),
            FieldInfo(
                name="memory_per_host_bytes",
                title="Memory",
                type="bytes",
                default=0,
                minimum=0,
                help="Dask's limit for its own data, not on a GPU. 0: this machine's memory.",
            ),
        ]

    async def create(self, options: Mapping[str, Any], security: Any, directory: Path) -> Any:
        chosen = ",".join(gpu.id for gpu in _chosen(options))
        cluster = await super().create({**options, "hosts": 1}, security, directory)
        cluster.new_spec["options"]["env"] = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": chosen}
        return cluster

    def hosts(self, options: Mapping[str, Any], jobs: Mapping[str, int]) -> int:
        return 1

    def expected_hosts(self, options: Mapping[str, Any]) -> list[HostDesign]:
        gpus = _chosen(options)
        _check_memory(options, gpus)
        return [
            HostDesign(
                name=paths.machine_name(),
                cpus=options["threads_per_host"] or len(os.sched_getaffinity(0)),
                memory_bytes=options["memory_per_host_bytes"] or psutil.virtual_memory().total,
                gpus=[gpu.memory_bytes for gpu in gpus],
            )
        ]

    def task_defaults(self, options: Mapping[str, Any]) -> TaskDefaults:
        memory: int | float | None = options["gpu_memory_bytes"] or None
        if memory is None and options["tasks_per_gpu"] > 1:
            tasks = options["tasks_per_gpu"]
            sizes = [gpu.memory_bytes for gpu in _chosen(options) if gpu.memory_bytes]
            memory = min((share_of(size, tasks) / size for size in sizes), default=SHARED / tasks)
        switched_off = {variable: "1" for name, variable in _SWITCHES.items() if not options[name]}
        return TaskDefaults(gpu_memory=memory, gpu_growth=options["growth"], gpu_needed=True, environment=switched_off)


def _chosen(options: Mapping[str, Any]) -> list[GpuInfo]:
    """Return the GPUs listed in the option ``gpus``, in that order, or all if it is empty. Raises InvalidInput."""
    there = read_gpus()
    if not there:
        raise InvalidInput(
            "Neither NVIDIA's management library (nvidia-ml-py) nor its driver reports a GPU on this machine: "
            "`nvidia-smi` shows whether the driver works. The kind local computes on the CPU",
            field="options.gpus",
        )
    if not options["gpus"]:
        return there
    chosen = []
    for entry in options["gpus"]:
        named = [gpu for gpu in there if (str(gpu.index) == entry if entry.isdecimal() else gpu.id.startswith(entry))]
        if len(named) != 1 or named[0] in chosen:
            known = ", ".join(f"{gpu.index} ({gpu.id})" for gpu in there)
            again = ", which is listed twice" if named and named[0] in chosen else ""
            raise InvalidInput(
                f"`gpus` must be some of {known}, each at most once, got {entry!r:.100}{again}", field="options.gpus"
            )
        chosen += named
    return chosen


def _check_memory(options: Mapping[str, Any], gpus: list[GpuInfo]) -> None:
    cap, tasks = options["gpu_memory_bytes"], options["tasks_per_gpu"]
    for gpu in gpus:
        if gpu.memory_bytes and cap * tasks > gpu.memory_bytes:
            raise InvalidInput(
                f"`gpu_memory_bytes` of {tasks} task{'s' * (tasks > 1)} must fit into the memory of a GPU, "
                f"{bytes_(gpu.memory_bytes)} for GPU {gpu.index}, got {bytes_(cap)} per task",
                field="options.gpu_memory_bytes",
            )
        if not gpu.memory_bytes and tasks > 1:
            raise InvalidInput(
                f"`tasks_per_gpu` must be 1 for GPU {gpu.index}, got {tasks}: sharing a GPU requires its memory "
                "size, which only NVIDIA's management library reports (pip install nvidia-ml-py)",
                field="options.tasks_per_gpu",
            )
