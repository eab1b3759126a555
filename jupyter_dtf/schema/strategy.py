"""Strategies: how the tasks of a run train one model together. Inert; ``backend/task/fit`` carries them out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, get_args

import msgspec

from ..errors import InvalidInput
from .cluster import FIRST_JOBS
from .placement import Placement

TRANSPORTS = ("auto", "shm", "tcp", "ring")
COMPRESSIONS = ("none", "fp16", "bf16")
OPS = ("average", "sum")
SPARSE = ("gather", "dense")


class _Strategy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: ClassVar[str]
    """What a run of it is called in the panel, and the word that ``strategy=`` takes for it."""
    jobs: ClassVar[tuple[str, ...]]
    """The jobs of a cluster that take part."""

    def _one_of(self, field: str, values: tuple[str, ...]) -> None:
        value = getattr(self, field)
        if value not in values:
            raise InvalidInput(f"{field} is one of {', '.join(values)}. Received: {value!r}", field=f"strategy.{field}")

    def _at_least(self, field: str, least: int) -> None:
        value = getattr(self, field)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidInput(
                f"{field} is a whole number, {least} or more. Received: {value!r}", field=f"strategy.{field}"
            )


class AllReduce(_Strategy, frozen=True):
    """Synchronous data parallelism: every task computes gradients on its share of each batch, all apply their mean.

    ``transport`` is how the sum over the tasks is formed: ``shm``, in shared memory, which needs all tasks on one
    x86-64 machine; ``tcp``, by encrypted connections of the run's own, or ``ring``, TensorFlow's own collectives, which
    both work across machines, with the tasks of a machine summed in its memory first; ``auto``, the best of those that
    can work.

    ``op`` "average" applies the mean gradient over the examples of all tasks, "sum" that mean times the number of
    tasks. ``compression`` sends gradients as ``fp16`` or ``bf16``. ``backward_passes_per_step`` adds up the gradients
    of so many batches before they are reduced and applied once. ``clip_norm`` scales the reduced gradients down to this
    global norm. ``sparse`` says what travels of the gradient of an embedding: "gather", the rows that were used, or
    "dense", the whole table. ``fusion_bytes`` is how much of the gradients travels at a time while the rest is still
    being computed: None, 64 MiB in memory and 4 MiB between machines; 0 sends all at once at the end.
    """

    name = "allreduce"
    jobs = FIRST_JOBS

    transport: str = "auto"
    op: str = "average"
    compression: str = "none"
    backward_passes_per_step: int = 1
    clip_norm: float | None = None
    sparse: str = "gather"
    fusion_bytes: int | None = None

    def __post_init__(self) -> None:
        self._one_of("transport", TRANSPORTS)
        self._one_of("op", OPS)
        self._one_of("compression", COMPRESSIONS)
        self._one_of("sparse", SPARSE)
        self._at_least("backward_passes_per_step", 1)
        if self.fusion_bytes is not None:
            self._at_least("fusion_bytes", 0)
        clip = self.clip_norm
        if clip is not None and (isinstance(clip, bool) or not isinstance(clip, (int, float)) or not clip > 0):
            raise InvalidInput(f"clip_norm is None or a number above 0. Received: {clip!r}", field="strategy.clip_norm")


class ParameterServer(_Strategy, frozen=True):
    """Variables live on the ``ps`` tasks; workers fetch them, and send gradients that are applied there.

    Asynchronous by default: each worker trains at its own pace, and a gradient is applied when it comes, to variables
    that others have changed meanwhile. ``max_staleness`` lets no worker get more than so many steps ahead of the
    slowest. ``sync``: each step takes the first ``workers - backup_workers`` gradients, applies their mean and drops
    the late ones. A variable of more than ``split_bytes`` is split by rows over the ``ps`` tasks.
    """

    name = "ps"
    jobs = (*FIRST_JOBS, "ps")

    sync: bool = False
    backup_workers: int = 0
    max_staleness: int | None = None
    split_bytes: int = 16 << 20

    def __post_init__(self) -> None:
        self._at_least("backup_workers", 0)
        self._at_least("split_bytes", 1)
        if self.backup_workers and not self.sync:
            raise InvalidInput(
                f"backup_workers needs sync=True: nobody waits for a late gradient otherwise. Received: "
                f"backup_workers={self.backup_workers}, sync=False",
                field="strategy.backup_workers",
            )
        if self.max_staleness is not None:
            self._at_least("max_staleness", 0)
            if self.sync:
                raise InvalidInput(
                    f"max_staleness is for sync=False: synchronous gradients are never stale. Received: "
                    f"max_staleness={self.max_staleness}, sync=True",
                    field="strategy.max_staleness",
                )

    @property
    def goes_in_step(self) -> bool:
        """Whether every worker waits in each step for all others. Those that do not are apart."""
        return self.sync and not self.backup_workers


class InGraph(_Strategy, frozen=True):
    """One client, one tower per device: each takes its share of the batch, the client applies the mean gradient.

    ``devices``: device strings of the towers (without job and task, the client's); empty takes every GPU of the run's
    tasks, or where there is none the CPU of each task.
    """

    name = "mirrored"
    jobs = FIRST_JOBS

    devices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = self.devices
        well_formed = isinstance(names, (tuple, list)) and all(isinstance(name, str) and name for name in names)
        if not well_formed or len(set(names)) < len(names):
            raise InvalidInput(
                f"devices is a tuple of device strings, each once: a device carries one tower. Received: {names!r}",
                field="strategy.devices",
            )


class Pipeline(_Strategy, frozen=True):
    """Each layer on a device of its own choice: one client, whose batches go through the devices in parts.

    ``placement`` is a ``Placement``, a mapping of layers (or of containers of layers) to device strings, or the path of
    a ``.dtf`` design. ``microbatches``: how many parts a batch is divided into, so that all devices have something to
    do. ``replicas``: so many copies of the pipeline, each on its own share of the tasks, train on their own parts of
    every batch; the placement names the devices of the first.
    """

    name = "pipeline"
    jobs = FIRST_JOBS

    placement: Placement | dict[str, str] | str
    microbatches: int = 8
    replicas: int = 1

    def __post_init__(self) -> None:
        given: Any = self.placement
        if isinstance(given, Path):
            msgspec.structs.force_setattr(self, "placement", str(given))
        elif isinstance(given, Mapping):
            if not all(isinstance(name, str) and isinstance(device, str) for name, device in given.items()):
                raise InvalidInput(
                    f"placement maps layers to device strings. Received: {given!r:.200}", field="strategy.placement"
                )
            msgspec.structs.force_setattr(self, "placement", Placement(devices=dict(given)))
        elif not isinstance(given, (Placement, str)):
            raise InvalidInput(
                "placement is a Placement (dtf.place makes one), a mapping of layers to device strings, or the path of "
                f"a .dtf design. Received: {given!r:.200}",
                field="strategy.placement",
            )
        self._at_least("microbatches", 1)
        self._at_least("replicas", 1)


Strategy = AllReduce | ParameterServer | InGraph | Pipeline

_KINDS: tuple[type[Strategy], ...] = get_args(Strategy)
_BY_NAME = [kind for kind in _KINDS if not any(field.required for field in msgspec.structs.fields(kind))]
"""Those that need nothing said."""


def parse_strategy(value: Any) -> Strategy:
    """A strategy from its name (``"allreduce"``, ``"ps"``, ``"mirrored"``) or itself. Raises InvalidInput."""
    if isinstance(value, _KINDS):
        return value
    for kind in _BY_NAME:
        if value == kind.name:
            return msgspec.convert({}, kind)
    names = ", ".join(f'"{kind.name}" (dtf.{kind.__name__})' for kind in _BY_NAME)
    raise InvalidInput(
        f"strategy is one of {names} or dtf.Pipeline(placement). Received: {value!r:.200}", field="strategy"
    )
