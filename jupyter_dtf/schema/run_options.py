"""The options of every run: the arguments that ``run``, ``run_script`` and ``fit`` share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..errors import InvalidInput
from .arguments import as_mapping, check_integer, is_number, make_plain
from .base import Struct
from .checkpoint import Checkpoint
from .cluster import check_jobs
from .notify import Notify, as_notify
from .printable import check_line, check_word
from .restart import Restart, as_restart
from .trace import check_steps

MIN_GPU_MEMORY_BYTES = 1 << 20


STEP_GRACE_S = 30.0
"""The time, in seconds, that training may take to reach the end of a step after a stop request. A training run that is
killed loses its progress."""


class RunOptions(Struct):
    """The options of a run, validated on creation.

    A new option must be added as a field here and as an argument of ``run``, ``run_script`` and ``fit``.
    """

    name: str = ""
    jobs: dict[str, int] = {}
    """The jobs that take part, with their numbers of tasks; empty: all jobs of the cluster."""
    threads_per_task: int = 0
    """The number of threads of each task. 0: divide the host's threads among its tasks of this run."""
    gpus_per_task: int | None = None
    """The number of GPUs of each task; 0: none. None: divide the machine's GPUs among its tasks of this run, except
    ``ps`` and ``evaluator``."""
    gpu_memory: int | float | None = None
    """The most memory that a task allocates on each of its GPUs: bytes (int) or a fraction (float). None: no limit."""
    stop_grace_s: float = 10.0
    """The time, in seconds, that the program may take to end on its own after a stop request."""
    environment: dict[str, str] = {}
    trace_steps: list[int] = []
    """``[first, last]``, counted from 1: the steps in which to record the device and time of each operation. Empty:
    none."""
    restart: Restart | None = None
    """What to do when a task dies or freezes. None: the default for the kind of run (``RunRequest.restarts``)."""
    notify: Notify | None = None
    """The conditions about which to notify the user. None: only the usual notes."""
    checkpoint: Checkpoint | bool | None = None
    """When checkpoints are written and which are kept. None and True: the default; False: no checkpoints."""

    @classmethod
    def among(cls, arguments: Mapping[str, Any]) -> RunOptions:
        """Collect the options among a function's arguments (its ``locals()``). None means the default.

        Raises InvalidInput.
        """
        given = {name: arguments[name] for name in cls.__struct_fields__ if arguments.get(name) is not None}
        for name in ("jobs", "environment"):
            if name in given:
                given[name] = as_mapping(given[name], name)
        if "trace_steps" in given:
            given["trace_steps"] = check_steps(given["trace_steps"])
        if "restart" in given:
            given["restart"] = as_restart(given["restart"])
        if "notify" in given:
            given["notify"] = as_notify(given["notify"])
        return RunOptions(**given)

    def __post_init__(self) -> None:
        make_plain(self)
        check_line(self.name, "name")
        if self.jobs:
            check_jobs(self.jobs)
        for key, value in self.environment.items():
            check_word(value, f"environment.{key!s:.100}")
            check_word(key, "environment")
            if not key or "=" in key:
                raise InvalidInput(
                    f"The names in `environment` must not be empty or contain =, got {key!r:.100}", field="environment"
                )
        if self.trace_steps:
            check_steps(self.trace_steps)
        if self.checkpoint is not None and not isinstance(self.checkpoint, (Checkpoint, bool)):
            raise InvalidInput(
                f"`checkpoint` must be a dtf.Checkpoint, True or False, got {self.checkpoint!r:.100}",
                field="checkpoint",
            )
        check_integer(self.threads_per_task, "threads_per_task", 0, note=" (0: equal shares)")
        self._check_gpus()
        grace_s = self.stop_grace_s
        if not is_number(grace_s) or not 0 <= grace_s < math.inf:
            raise InvalidInput(
                f"`stop_grace_s` must be a number of seconds >= 0, got {grace_s!r:.100}", field="stop_grace_s"
            )

    def _check_gpus(self) -> None:
        count, memory = self.gpus_per_task, self.gpu_memory
        if count is not None:
            check_integer(count, "gpus_per_task", 0, note=", or None (equal shares)")
        if memory is None:
            return
        fraction = isinstance(memory, float) and 0 < memory <= 1
        if not fraction and (not isinstance(memory, int) or memory < MIN_GPU_MEMORY_BYTES):
            raise InvalidInput(
                f"`gpu_memory` must be an integer number of bytes >= {MIN_GPU_MEMORY_BYTES}, or a fraction > 0 and "
                f"<= 1.0 of a GPU, got {memory!r}",
                field="gpu_memory",
            )
        if count == 0:
            raise InvalidInput(f"`gpu_memory` must be None with gpus_per_task=0, got {memory!r}", field="gpu_memory")
