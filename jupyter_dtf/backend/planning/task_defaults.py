"""Defaults that a kind's options set for all tasks of a cluster, unless a run overrides them. Pure."""

from __future__ import annotations

import msgspec

from ...schema.run import RunRequest
from .gpu_assignment import GpuRequest


class TaskDefaults(msgspec.Struct):
    """GPU settings for tasks that compute on a GPU, and environment variables for every task."""

    gpu_memory: int | float | None = None
    """The most GPU memory a task may use, in bytes (int) or as a fraction (float). Capped tasks may share a GPU."""
    gpu_growth: bool = True
    """Whether a task without a cap allocates GPU memory as needed (True) or all of it at the start (False)."""
    gpu_needed: bool = False
    """Whether a run with more tasks than the GPUs can serve is rejected rather than run on CPUs."""
    environment: dict[str, str] = {}

    def gpus_for(self, request: RunRequest, *, are_drawn: bool) -> GpuRequest:
        """Return the request for a run's GPUs. ``are_drawn``: whether a design assigns the run's tasks to devices."""
        asks = request.gpus_per_task is not None or request.gpu_memory is not None
        memory = request.gpu_memory if asks or are_drawn else self.gpu_memory
        is_needed = self.gpu_needed and not are_drawn
        return GpuRequest(request.gpus_per_task, memory, grows=self.gpu_growth, is_needed=is_needed)

    def complete(self, request: RunRequest) -> None:
        """Add the environment variables to those of a run; the run's values take precedence."""
        request.environment = {**self.environment, **request.environment}
