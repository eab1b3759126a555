"""Requests for and results of forecasts of how a training would scale. Inert; ``backend/planning`` computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import InvalidInput
from .api import Problem
from .base import PeerStruct, Struct
from .design import Design
from .placement import Link
from .sizes import bytes_, number, seconds_
from .text_table import aligned, as_html

if TYPE_CHECKING:
    import pandas as pd

STRATEGIES = ("allreduce", "ps", "mirrored", "pipeline")
"""The strategies that can be forecast: all-reduce, parameter servers, in-graph replicas, pipelines."""
ALGORITHMS = ("auto", "ring", "hierarchical", "tree")
"""The algorithms of all-reduce."""
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
"""The precisions of computation. Not every device has all of them."""
TRANSPORTS = ("tcp", "rdma")
"""The transports between machines."""
COMPRESSIONS = ("none", "fp16", "bf16")
"""The compression of gradients."""

MAX_TASKS = 65_536
MAX_POINTS = 64
"""The most numbers of tasks in a forecast."""
MAX_FIGURE = 1e18
"""The largest number that the user may give, so that results stay finite."""


_COUNTS = ("batch_size", "per_device", "backup_workers", "microbatches", "stages", "replicas", "devices_per_machine")


class ForecastSettings(Struct):
    """What to forecast. Empty and 0: from the design, its calibration, or the defaults."""

    strategy: str = "allreduce"
    """``allreduce``, ``ps``, ``mirrored`` (in-graph) or ``pipeline``."""
    tasks: list[int] = []
    """The numbers of computing tasks; empty: 1, 2, 4, ..., 512. ``ps`` tasks are additional. For a pipeline: all of
    its stages and replicas."""
    batch_size: int = 0
    """Examples in a step over all tasks, the same for every number of tasks (strong scaling)."""
    per_device: int = 0
    """Examples in a step of each task (weak scaling). If both are 0, as many as each task has in the design."""
    algorithm: str = "auto"
    """For all-reduce: ``ring``, ``hierarchical`` (a ring between machines, each of which reduces first), ``tree``, or
    ``auto``, as ``dtf.AllReduce`` would choose."""
    compression: str = "none"
    """For gradients that are sent: ``none``, ``fp16``, ``bf16``."""
    sync: bool = False
    """For ``ps``: whether all workers wait for the slowest in each step; off by default, as in the strategy."""
    servers: int = 1
    """The number of ``ps`` tasks, which share the variables."""
    backup_workers: int = 0
    """For ``ps`` with ``sync``: this many of the last gradients of each step are not waited for."""
    microbatches: int = 0
    """For a pipeline. 0: the design's."""
    stages: int = 0
    """For a pipeline: the devices of one copy of the model. 0: the design's, or 2."""
    replicas: int = 0
    """For a pipeline: the copies of the model. 0: as many as there are tasks for; 1: all tasks are stages of one."""
    device: str = ""
    """A device of ``GET /hardware``, such as ``A100``. Empty: as the calibration measured, or else
    with the speed that the designer assumes."""
    precision: str = "fp32"
    utilisation: float = 0.0
    """The fraction of the device's peak that a step reaches, from 0 to 1. 0: the table's."""
    network: str = ""
    """Between machines: a network of ``GET /hardware``, such as ``25gbit``. Empty: ``link``, the calibration's, or
    10 Gbit/s."""
    transport: str = "tcp"
    """Over that network: ``tcp`` or ``rdma``."""
    local: str = ""
    """Between the devices of one machine: a network of ``GET /hardware``. Empty: ``pcie3``, or ``memory`` for CPUs."""
    link: Link | None = None
    """Measured between machines, as by ``jupyter dtf doctor --network``. Takes precedence over ``network``."""
    devices_per_machine: int = 0
    """0: the most that a host of the design has, or 1."""
    input_examples_per_s: float = 0.0
    """The throughput of the input pipeline of each task; 0: it never delays a step."""
    straggling: float = 0.0
    """The variation of the steps of a task: the standard deviation of their time over its mean. 0: as measured, or a
    typical value."""
    threshold: float = 0.5
    """More tasks are worthwhile as long as they add at least this fraction of perfect scaling."""

    def __post_init__(self) -> None:
        for field, values in (
            ("strategy", STRATEGIES),
            ("algorithm", ALGORITHMS),
            ("compression", COMPRESSIONS),
            ("precision", PRECISIONS),
            ("transport", TRANSPORTS),
        ):
            self._one_of(field, values)
        if len(self.tasks) > MAX_POINTS or any(not 1 <= count <= MAX_TASKS for count in self.tasks):
            raise InvalidInput(
                f"`tasks` must be at most {MAX_POINTS} integers from 1 to {MAX_TASKS:,}, got {self.tasks!r:.200}",
                field="tasks",
            )
        for field in (
            "batch_size",
            "per_device",
            "backup_workers",
            "microbatches",
            "stages",
            "replicas",
            "devices_per_machine",
        ):
            self._from_to(field, 0, 2**31)
        self._from_to("servers", 1, MAX_TASKS)
        self._from_to("utilisation", 0, 1)
        self._from_to("straggling", 0, 10)
        self._from_to("threshold", 0, 1)
        self._from_to("input_examples_per_s", 0, MAX_FIGURE)
        if self.batch_size and self.per_device:
            raise InvalidInput(
                "Only one of `batch_size`, for all tasks together, and `per_device` must be given, "
                f"got batch_size={self.batch_size} and per_device={self.per_device}",
                field="per_device",
            )
        if self.backup_workers and (self.strategy != "ps" or not self.sync):
            raise InvalidInput(
                '`backup_workers` must be 0 unless strategy="ps" and sync=True, because nothing waits for late '
                f"gradients otherwise, got {self.backup_workers} with strategy={self.strategy!r} and sync={self.sync}",
                field="backup_workers",
            )
        link = self.link
        if link is not None and not (1e-9 < link.bytes_per_s < MAX_FIGURE and link.latency_s < MAX_FIGURE):
            raise InvalidInput(
                f"`link` must have bytes_per_s and latency_s that a network can have, got {link!r}", field="link"
            )

    def _one_of(self, field: str, values: tuple[str, ...]) -> None:
        value = getattr(self, field)
        if value not in values:
            raise InvalidInput(f"`{field}` must be one of {', '.join(values)}, got {value!r:.100}", field=field)

    def _from_to(self, field: str, least: float, most: float) -> None:
        value = getattr(self, field)
        if not least <= value <= most:
            raise InvalidInput(f"`{field}` must be a number from {least} to {most:g}, got {value}", field=field)


class ForecastRequest(Struct):
    """A design with a model, and the settings of one or several forecasts to compare."""

    design: Design
    settings: list[ForecastSettings] = msgspec.field(default_factory=lambda: [ForecastSettings()])

    def __post_init__(self) -> None:
        if not 1 <= len(self.settings) <= 16:
            raise InvalidInput(f"`settings` must have from 1 to 16 items, got {len(self.settings)}", field="settings")


class StepParts(PeerStruct):
    """The parts of a step of one task, in seconds. All except ``hidden_s`` add up to the step."""

    input_s: float = 0.0
    """Waiting for the next batch."""
    compute_s: float = 0.0
    """Forward and backward pass."""
    hidden_s: float = 0.0
    """Communication during the backward pass, which costs nothing."""
    exposed_s: float = 0.0
    """Communication while nothing is computed."""
    update_s: float = 0.0
    """The optimizer."""
    idle_s: float = 0.0
    """Waiting for other tasks: the slowest of a step, other stages of a pipeline, a busy parameter server."""


class ForecastPoint(PeerStruct):
    """The forecast for one number of tasks."""

    tasks: int
    """The tasks that compute."""
    servers: int = 0
    """Additional ``ps`` tasks."""
    machines: int = 1
    """The machines of the computing tasks."""
    batch_size: int = 0
    """Examples in a step of all tasks; in asynchronous training, in one step of each."""
    step_seconds: float = 0.0
    parts: StepParts = msgspec.field(default_factory=StepParts)
    examples_per_second: float = 0.0
    low: float = 0.0
    """Examples per second if compute and network are slower than assumed."""
    high: float = 0.0
    """The same if they are faster."""
    linear: float = 0.0
    """Examples per second if every task were as fast as a single one."""
    efficiency: float = 0.0
    """``examples_per_second`` over ``linear``."""
    marginal: float = 0.0
    """What each additional task adds since the previous point, as a fraction of a single task."""
    updates_per_second: float = 0.0
    """Updates of the variables per second."""
    staleness: float = 0.0
    """The mean number of updates by others between a worker fetching the variables and its gradient being applied."""
    dropped: float = 0.0
    """The fraction of the gradients that arrive too late (backup workers)."""
    sent_bytes: int = 0
    """Bytes sent by each task in a step."""
    memory_bytes: int = 0
    """The memory needed by the device that needs the most."""
    memory_limit_bytes: int = 0
    """The memory of a device; 0 if unknown."""
    limit: str = ""
    """The main cause of lost time: ``exchange``, ``input``, ``waiting``, ``servers``, ``update``; empty if little is
    lost."""
    problem: str = ""
    """Why it would not work: memory, more tasks than examples."""


class Forecast(PeerStruct):
    """Examples per second by the number of tasks, with the parts of a step and their uncertainty.

    ``show()`` prints all of it, ``frame()`` is a DataFrame with a row for each number of tasks.
    """

    model: str
    settings: ForecastSettings
    """The requested settings, with all defaults filled in."""
    title: str = ""
    """The strategy in words: ``all-reduce, ring, 25 Gbit/s Ethernet (TCP)``."""
    source: str = ""
    """The source of the compute time: ``calibration``, ``published``, ``run`` or ``assumed``."""
    points: list[ForecastPoint] = []
    """In order of the number of tasks."""
    pays_until: int = 0
    """The largest number of tasks in ``points`` up to which more are worthwhile; 0 if not even the first is."""
    why: str = ""
    """A sentence about where more tasks stop being worthwhile, and why."""
    notes: list[str] = []
    """The assumptions of the forecast."""
    problems: list[Problem] = []

    def frame(self) -> pd.DataFrame:
        """A row for each number of tasks: all fields of a point, including the parts of its step."""
        import pandas as pd

        rows = []
        for point in self.points:
            row = msgspec.structs.asdict(point)
            rows.append({**row, **msgspec.structs.asdict(row.pop("parts"))})
        table: pd.DataFrame = pd.DataFrame(rows)
        return table

    def at(self, tasks: int) -> ForecastPoint:
        """The point for this number of tasks. Raises InvalidInput if it was not forecast."""
        for point in self.points:
            if point.tasks == tasks:
                return point
        known = ", ".join(str(point.tasks) for point in self.points)
        raise InvalidInput(f"`tasks` must be one of {known}, got {tasks}", field="tasks")

    def show(self) -> None:
        """Print it, with its assumptions."""
        print("\n".join([repr(self), *self.notes]))  # noqa: T201 - for a person

    def __repr__(self) -> str:
        wrong = [problem.message for problem in self.problems]
        return "\n".join([self._head(), aligned(_rows(self.points)), *filter(None, [self.why]), *wrong])

    def _repr_html_(self) -> str:
        wrong = [problem.message for problem in self.problems]
        return as_html(_rows(self.points), self._head(), [*filter(None, [self.why]), *wrong, *self.notes])

    def _head(self) -> str:
        return f"Forecast for {self.model}: {self.title}"


def _rows(points: Sequence[ForecastPoint]) -> list[list[str]]:
    """A readable table, with only the columns that carry information."""
    columns: list[tuple[str, list[str], bool]] = [
        ("tasks", [str(point.tasks) for point in points], True),
        ("machines", [str(point.machines) for point in points], True),
        ("batch", [str(point.batch_size) for point in points], True),
        ("examples/s", [number(point.examples_per_second) for point in points], True),
        ("band", [f"{number(point.low)} to {number(point.high)}" for point in points], True),
        ("efficiency", [f"{point.efficiency:.0%}" for point in points], True),
        ("marginal", [f"{point.marginal:.0%}" for point in points], len(points) > 1),
        ("step", [seconds_(point.step_seconds) for point in points], True),
    ]
    for part in ("input", "compute", "hidden", "exposed", "update", "idle"):
        values = [getattr(point.parts, f"{part}_s") for point in points]
        columns.append((part, [seconds_(value) for value in values], any(values)))
    columns += [
        ("memory", [bytes_(point.memory_bytes) for point in points], any(point.memory_bytes for point in points)),
        ("staleness", [number(point.staleness) for point in points], any(point.staleness for point in points)),
        ("dropped", [f"{point.dropped:.0%}" for point in points], any(point.dropped for point in points)),
        ("limit", [point.limit for point in points], any(point.limit for point in points)),
        ("problem", [point.problem for point in points], any(point.problem for point in points)),
    ]
    shown: list[Any] = [[name, *cells] for name, cells, is_shown in columns if is_shown]
    return [list(row) for row in zip(*shown, strict=True)]
