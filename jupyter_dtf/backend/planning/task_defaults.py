"""What a kind's options have for all tasks of its clusters, where a run does not say otherwise. Pure."""

from __future__ import annotations

import msgspec

from ...schema.run import RunRequest
from .gpu_grants import GpuRequest


class TaskDefaults(msgspec.Struct):
    """For each task that computes on a GPU; ``environment`` for every task."""

    gpu_memory: int | float | None = None
    """A cap on what a task takes of its GPU, in bytes or as a fraction, with which tasks share one."""
    gpu_growth: bool = True
    """Whether a task without a cap takes a GPU's memory as it needs it, or all of it at once."""
    environment: dict[str, str] = {}

    def gpus_for(self, request: RunRequest, *, are_drawn: bool) -> GpuRequest:
        """What a run asks for of GPUs; ``are_drawn``: its tasks have been put on devices."""
        asks = request.gpus_per_task is not None or request.gpu_memory is not None
        memory = request.gpu_memory if asks or are_drawn else self.gpu_memory
        return GpuRequest(request.gpus_per_task, memory, grows=self.gpu_growth)

    def complete(self, request: RunRequest) -> None:
        """Give a run's tasks the environment, but what the run sets itself."""
        request.environment = {**self.environment, **request.environment}
