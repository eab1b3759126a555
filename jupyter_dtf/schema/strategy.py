"""Strategies: how the tasks of a run train a model together. Plain data; ``backend/task/fit`` implements them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, get_args

import msgspec

from ..errors import InvalidInput
from .arguments import check_integer, is_number, make_plain
from .cluster import FIRST_JOBS
from .placement import Placement

TRANSPORTS = ("auto", "shm", "tcp", "ring")
COMPRESSIONS = ("none", "fp16", "bf16")
OPS = ("average", "sum")
SPARSE = ("gather", "dense")
FILL_DRAIN, ONE_FORWARD_ONE_BACKWARD = "fill_drain", "1f1b"
SCHEDULES = (FILL_DRAIN, ONE_FORWARD_ONE_BACKWARD)


class _Strategy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the rest of the package needs to know of a strategy, so that it never asks which strategy it is."""

    name: ClassVar[str]
    """The name of the strategy, in the panel and for ``strategy=``."""
    jobs: ClassVar[tuple[str, ...]]
    """The jobs of a cluster that take part."""
    every_task_steps: ClassVar[bool]
    """Whether every worker executes steps of its own. Otherwise, one client executes the steps of all tasks."""
    counts_steps_together: ClassVar[bool] = False
    """Whether all workers are always within one step of each other, whatever the options."""
    waits_for_tasks: ClassVar[bool] = True
    """Whether a long wait in a step means that another task is slow. A busy parameter server delays workers too."""

    @property
    def goes_in_step(self) -> bool:
        """Whether every worker waits for all others in each step."""
        return True

    @property
    def skips_steps(self) -> bool:
        """Whether a slow worker skips steps that the others have completed without it. Every epoch then has the same
        number of steps, whatever the data.
        """
        return False

    @property
    def may_rejoin(self) -> bool:
        """Whether a worker that was lost is restarted alone while the others continue."""
        return False

    @property
    def may_be_spare(self) -> bool:
        """Whether a task may run in a process that has already initialized TensorFlow."""
        return False

    def smallest_group(self, tasks: int) -> int:
        """Return how many of ``tasks`` tasks can train only together."""
        return 1

    def _one_of(self, field: str, values: tuple[str, ...]) -> None:
        value = getattr(self, field)
        if value not in values:
            raise InvalidInput(
                f"`{field}` must be one of {', '.join(values)}, got {value!r}", field=f"strategy.{field}"
            )

    def _at_least(self, field: str, least: int) -> None:
        check_integer(getattr(self, field), f"strategy.{field}", least)


class AllReduce(_Strategy, frozen=True):
    """Synchronous data parallelism: each task computes gradients on its share of a batch, and all tasks apply the mean.

    Attributes:
        transport: How gradients are summed over the tasks. ``"shm"``: in shared memory; requires all tasks to be on one
            x86-64 machine. ``"tcp"``: over the run's own encrypted connections. ``"ring"``: by TensorFlow's
            collectives. The last two work across machines, and first sum over the tasks of each machine in its memory.
            ``"auto"``: the best transport that works.
        op: ``"average"`` applies the mean gradient over the examples of all tasks, ``"sum"`` that mean times the number
            of tasks.
        compression: ``"none"``, or the type in which gradients are sent: ``"fp16"`` or ``"bf16"``.
        backward_passes_per_step: Accumulate the gradients of this many batches before they are reduced and applied.
        clip_norm: Scale the reduced gradients down to this global norm. None: do not clip.
        sparse: The part of an embedding's gradient that is sent: ``"gather"``, the rows that were used, or ``"dense"``,
            the whole table.
        fusion_bytes: The number of bytes of gradients that are sent at a time while other gradients are still being
            computed. None: 64 MiB in shared memory and 4 MiB between machines. 0: send all gradients at the end.

    Raises:
        InvalidInput: If a value is invalid.

    Example:
        >>> cluster.fit(model, x, y, strategy=dtf.AllReduce(compression="bf16", clip_norm=1.0))
    """

    name = "allreduce"
    jobs = FIRST_JOBS
    every_task_steps = True
    counts_steps_together = True

    transport: str = "auto"
    op: str = "average"
    compression: str = "none"
    backward_passes_per_step: int = 1
    clip_norm: float | None = None
    sparse: str = "gather"
    fusion_bytes: int | None = None

    def __post_init__(self) -> None:
        make_plain(self)
        self._one_of("transport", TRANSPORTS)
        self._one_of("op", OPS)
        self._one_of("compression", COMPRESSIONS)
        self._one_of("sparse", SPARSE)
        self._at_least("backward_passes_per_step", 1)
        if self.fusion_bytes is not None:
            self._at_least("fusion_bytes", 0)
        clip = self.clip_norm
        if clip is not None and (not is_number(clip) or not clip > 0):
            raise InvalidInput(f"`clip_norm` must be None or a number > 0, got {clip!r}", field="strategy.clip_norm")

    @property
    def may_be_spare(self) -> bool:
        """Whether a task may run in a process that has already initialized TensorFlow: the ring must do so itself."""
        return self.transport != "ring"


class ParameterServer(_Strategy, frozen=True):
    """Parameter servers: variables are held by the ``ps`` tasks; workers fetch them and send back gradients.

    Training is asynchronous by default: each worker trains at its own pace, and its gradients are applied on arrival to
    variables that other workers may have changed in the meantime.

    Attributes:
        sync: Train synchronously: each step applies the mean of the first ``workers - backup_workers`` gradients and
            drops the late ones.
        backup_workers: The number of workers for which a step does not wait. Requires ``sync=True``.
        max_staleness: The number of steps that a worker may be ahead of the slowest one. None: no limit. Requires
            ``sync=False``.
        split_bytes: Variables larger than this, in bytes, are split by rows over the ``ps`` tasks.

    Raises:
        InvalidInput: If a value is invalid.

    Example:
        >>> cluster.fit(model, x, y, strategy=dtf.ParameterServer(sync=True, backup_workers=1))
    """

    name = "ps"
    jobs = (*FIRST_JOBS, "ps")
    every_task_steps = True
    waits_for_tasks = False

    sync: bool = False
    backup_workers: int = 0
    max_staleness: int | None = None
    split_bytes: int = 16 << 20

    def __post_init__(self) -> None:
        make_plain(self)
        self._at_least("backup_workers", 0)
        self._at_least("split_bytes", 1)
        if self.backup_workers and not self.sync:
            raise InvalidInput(
                f"`backup_workers` must be 0 unless sync=True, got backup_workers={self.backup_workers}, sync=False",
                field="strategy.backup_workers",
            )
        if self.max_staleness is not None:
            self._at_least("max_staleness", 0)
            if self.sync:
                raise InvalidInput(
                    "`max_staleness` must be None unless sync=False, got "
                    f"max_staleness={self.max_staleness}, sync=True",
                    field="strategy.max_staleness",
                )

    @property
    def goes_in_step(self) -> bool:
        """Whether every worker waits for all others in each step."""
        return self.sync and not self.backup_workers

    @property
    def skips_steps(self) -> bool:
        """Whether a slow worker skips steps that the others have completed without it. Every epoch then has the same
        number of steps, whatever the data.
        """
        return self.backup_workers > 0

    @property
    def may_rejoin(self) -> bool:
        """Whether a worker that was lost is restarted alone while the others continue."""
        return not self.goes_in_step


class InGraph(_Strategy, frozen=True):
    """In-graph replication: one client runs a replica of the model on each device. The replicas divide each batch.

    The client applies the mean of the replicas' gradients.

    Attributes:
        devices: The device strings of the replicas. Strings without job and task refer to the client. Empty: every GPU
            of the run's tasks or, if there are none, the CPU of each task.

    Raises:
        InvalidInput: If a value is invalid.

    Example:
        >>> cluster.fit(model, x, y, strategy=dtf.InGraph(devices=("GPU:0", "GPU:1")))
    """

    name = "mirrored"
    jobs = FIRST_JOBS
    every_task_steps = False

    devices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        make_plain(self)
        names = self.devices
        well_formed = isinstance(names, (tuple, list)) and all(isinstance(name, str) and name for name in names)
        if not well_formed or len(set(names)) < len(names):
            raise InvalidInput(
                f"`devices` must be a tuple of different device strings, one for each replica, got {names!r}",
                field="strategy.devices",
            )


class Pipeline(_Strategy, frozen=True):
    """Pipeline parallelism: each layer runs on its own device, and microbatches pass through the devices in turn.

    Attributes:
        placement: A ``dtf.Placement``, a mapping from layers (or containers of layers) to device strings, or the path
            of a ``.dtf`` design.
        microbatches: The number of parts into which a batch is divided, so that all devices work at the same time.
        replicas: The number of copies of the pipeline. Each copy uses its own share of the tasks and trains on its own
            part of every batch; the placement names the devices of the first copy.
        schedule: The order in which each device runs its microbatches. ``"fill_drain"``: all forward passes, then all
            backward passes. ``"1f1b"``: one forward and one backward pass in turn, which holds the activations of fewer
            microbatches; it is worthwhile if computing a microbatch takes much longer than its transfers. With a loss
            that needs the outputs of the whole batch, the schedule is ``"fill_drain"`` in either case.

    Raises:
        InvalidInput: If a value is invalid.

    Example:
        >>> placement = dtf.place(model, cluster)
        >>> cluster.fit(model, x, y, strategy=dtf.Pipeline(placement, microbatches=8))
    """

    name = "pipeline"
    jobs = FIRST_JOBS
    every_task_steps = False

    placement: Placement | dict[str, str] | str
    microbatches: int = 8
    replicas: int = 1
    schedule: str = FILL_DRAIN

    def __post_init__(self) -> None:
        make_plain(self)
        given: Any = self.placement
        if isinstance(given, Path):
            msgspec.structs.force_setattr(self, "placement", str(given))
        elif isinstance(given, Mapping):
            if not all(isinstance(name, str) and isinstance(device, str) for name, device in given.items()):
                raise InvalidInput(
                    f"`placement` must map layers to device strings, got {given!r:.200}", field="strategy.placement"
                )
            msgspec.structs.force_setattr(self, "placement", Placement(devices=dict(given)))
        elif not isinstance(given, (Placement, str)):
            raise InvalidInput(
                "`placement` must be a Placement (see dtf.place), a mapping from layers to device strings, or the path "
                f"of a .dtf design, got {given!r:.200}",
                field="strategy.placement",
            )
        self._at_least("microbatches", 1)
        self._at_least("replicas", 1)
        self._one_of("schedule", SCHEDULES)

    def smallest_group(self, tasks: int) -> int:
        """Return how many of ``tasks`` tasks can train only together: those of one copy of the pipeline."""
        return tasks // self.replicas


Strategy = AllReduce | ParameterServer | InGraph | Pipeline

_KINDS: tuple[type[Strategy], ...] = get_args(Strategy)
_BY_NAME = [kind for kind in _KINDS if not any(field.required for field in msgspec.structs.fields(kind))]
"""The strategies without required arguments."""


def strategy_named(name: str) -> type[Strategy] | None:
    """Return the class of a strategy, given its name; None if there is no such strategy."""
    return next((kind for kind in _KINDS if kind.name == name), None)


def parse_strategy(value: Any) -> Strategy:
    """Convert a strategy from a name (``"allreduce"``, ``"ps"``, ``"mirrored"``) or an object. Raises InvalidInput."""
    if isinstance(value, _KINDS):
        return value
    for kind in _BY_NAME:
        if value == kind.name:
            return msgspec.convert({}, kind)
    names = ", ".join(f'"{kind.name}" (dtf.{kind.__name__})' for kind in _BY_NAME)
    raise InvalidInput(
        f"`strategy` must be one of {names} or dtf.Pipeline(placement), got {value!r:.200}", field="strategy"
    )
