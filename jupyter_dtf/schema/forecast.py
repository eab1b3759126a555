"""Requests for, and results of, forecasts of how training would scale. ``backend/planning`` computes them."""

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
"""The all-reduce algorithms."""
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
"""The precisions of computation. Not every device supports all of them."""
TRANSPORTS = ("tcp", "rdma")
"""The transports between machines."""
COMPRESSIONS = ("none", "fp16", "bf16")
"""The types of gradient compression."""

MAX_TASKS = 65_536
MAX_POINTS = 64
"""The largest number of points, each for one number of tasks, in a forecast."""
MAX_FIGURE = 1e18
"""The largest number that a user may enter, so that results stay finite."""


class ForecastSettings(Struct):
    """The settings of a forecast. Empty strings and 0: use the design, its calibration, or the default."""

    strategy: str = ""
    """``allreduce``, ``ps``, ``mirrored`` (in-graph) or ``pipeline``. Empty: the run's strategy, or ``allreduce`` for a
    design."""
    tasks: list[int] = []
    """The numbers of tasks to forecast, not counting ``ps`` tasks; empty: 1, 2, 4, ..., 512. For a pipeline, each
    number includes all stages and replicas."""
    batch_size: int = 0
    """The number of examples per step over all tasks, regardless of the number of tasks (strong scaling)."""
    per_device: int = 0
    """The number of examples per step of each task (weak scaling). If this and ``batch_size`` are 0: the number per
    task in the design."""
    algorithm: str = "auto"
    """For all-reduce: ``ring``, ``hierarchical`` (a reduction within each machine, then a ring between machines),
    ``tree``, or ``auto``, which is the choice that ``dtf.AllReduce`` would make."""
    compression: str = "none"
    """The compression of gradients that are sent: ``none``, ``fp16`` or ``bf16``."""
    sync: bool = False
    """For ``ps``: whether all workers wait for the slowest one in each step. False by default, as in the strategy."""
    servers: int = 1
    """The number of ``ps`` tasks, over which the variables are distributed."""
    backup_workers: int = 0
    """For ``ps`` with ``sync``: the number of late gradients for which each step does not wait."""
    microbatches: int = 0
    """For a pipeline: the number of microbatches. 0: the number in the design."""
    stages: int = 0
    """For a pipeline: the number of devices of one copy of the model. 0: the number in the design, or 2."""
    replicas: int = 0
    """For a pipeline: the number of copies of the model. 0: as many as the tasks allow; 1: all tasks are stages of one
    copy."""
    device: str = ""
    """The name of a device in ``GET /hardware``, such as ``A100``. Empty: the speed that the calibration measured, or
    else the speed that the designer assumes."""
    precision: str = "fp32"
    utilization: float = 0.0
    """The fraction of the device's peak performance that a step reaches, from 0 to 1. 0: the usual fraction
    (``DeviceFigures.utilization``)."""
    network: str = ""
    """The network between machines, by its name in ``GET /hardware``, such as ``25gbit``. Empty: ``link``, the link of
    the calibration, or 10 Gbit/s."""
    transport: str = "tcp"
    """The transport over that network: ``tcp`` or ``rdma``."""
    local: str = ""
    """The network between the devices of one machine, by its name in ``GET /hardware``. Empty: ``pcie3``, or ``memory``
    for CPUs."""
    link: Link | None = None
    """The measured link between machines, such as from ``jupyter dtf doctor --network``. Takes precedence over
    ``network``."""
    devices_per_machine: int = 0
    """The number of devices of each machine. 0: the number of devices of the design's largest host, or 1."""
    input_examples_per_s: float = 0.0
    """The throughput of each task's input pipeline, in examples per second; 0: it never delays a step."""
    straggling: float = 0.0
    """The variation of a task's step times: their standard deviation divided by their mean. 0: the measured or a
    typical value."""
    threshold: float = 0.5
    """Additional tasks are worthwhile if each of them adds at least this fraction of the throughput of a single
    task."""

    def __post_init__(self) -> None:
        for field, values in (
            ("strategy", STRATEGIES if self.strategy else ("",)),
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
        self._from_to("utilization", 0, 1)
        self._from_to("straggling", 0, 10)
        self._from_to("threshold", 0, 1)
        self._from_to("input_examples_per_s", 0, MAX_FIGURE)
        if self.batch_size and self.per_device:
            raise InvalidInput(
                "Only one of `batch_size` (of all tasks together) and `per_device` can be given, "
                f"got batch_size={self.batch_size} and per_device={self.per_device}",
                field="per_device",
            )
        if self.backup_workers and (self.strategy != "ps" or not self.sync):
            raise InvalidInput(
                '`backup_workers` must be 0 unless strategy="ps" and sync=True, '
                f"got {self.backup_workers} with strategy={self.strategy!r} and sync={self.sync}",
                field="backup_workers",
            )
        link = self.link
        if link is not None and not (1e-9 < link.bytes_per_s < MAX_FIGURE and link.latency_s < MAX_FIGURE):
            raise InvalidInput(f"`link` must have a realistic bytes_per_s and latency_s, got {link!r}", field="link")

    def _one_of(self, field: str, values: tuple[str, ...]) -> None:
        value = getattr(self, field)
        if value not in values:
            raise InvalidInput(f"`{field}` must be one of {', '.join(values)}, got {value!r:.100}", field=field)

    def _from_to(self, field: str, least: float, most: float) -> None:
        value = getattr(self, field)
        if not least <= value <= most:
            raise InvalidInput(f"`{field}` must be a number from {least} to {most:g}, got {value}", field=field)


class ForecastRequest(Struct):
    """A design with a model, and the settings of one or more forecasts to compare."""

    design: Design
    settings: list[ForecastSettings] = msgspec.field(default_factory=lambda: [ForecastSettings()])

    def __post_init__(self) -> None:
        if not 1 <= len(self.settings) <= 16:
            raise InvalidInput(f"`settings` must have from 1 to 16 items, got {len(self.settings)}", field="settings")


class StepParts(PeerStruct):
    """The parts of one task's step, in seconds. All except ``hidden_s`` add up to the time of the step."""

    input_s: float = 0.0
    """Waiting for the next batch."""
    compute_s: float = 0.0
    """The forward and backward passes."""
    hidden_s: float = 0.0
    """Communication that overlaps with the backward pass and therefore costs no time."""
    exposed_s: float = 0.0
    """Communication during which nothing is computed."""
    update_s: float = 0.0
    """The optimizer's update of the variables."""
    idle_s: float = 0.0
    """Waiting for other tasks: the slowest task of a step, other stages of a pipeline, or a busy parameter server."""


class ForecastPoint(PeerStruct):
    """The forecast for one number of tasks."""

    tasks: int
    """The number of tasks that compute."""
    servers: int = 0
    """The number of additional ``ps`` tasks."""
    machines: int = 1
    """The number of machines of the computing tasks."""
    batch_size: int = 0
    """The number of examples per step over all tasks; in asynchronous training, per step of each task."""
    step_seconds: float = 0.0
    parts: StepParts = msgspec.field(default_factory=StepParts)
    examples_per_second: float = 0.0
    low: float = 0.0
    """Examples per second if computation and network are slower than assumed."""
    high: float = 0.0
    """Examples per second if computation and network are faster than assumed."""
    linear: float = 0.0
    """Examples per second if every task were as fast as a task that trains alone."""
    efficiency: float = 0.0
    """``examples_per_second`` divided by ``linear``."""
    marginal: float = 0.0
    """The throughput added by each task since the previous point, as a fraction of the throughput of a single task."""
    updates_per_second: float = 0.0
    """Updates of the variables per second."""
    staleness: float = 0.0
    """The mean number of updates by other workers between a worker's fetch of the variables and its own update."""
    dropped: float = 0.0
    """The fraction of gradients that are dropped because they arrive too late (backup workers)."""
    sent_bytes: int = 0
    """The number of bytes that each task sends in a step."""
    memory_bytes: int = 0
    """The memory needed by the device that needs the most, in bytes."""
    memory_limit_bytes: int = 0
    """The memory of a device, in bytes; 0 if unknown."""
    limit: str = ""
    """The main cause of lost time: ``exchange``, ``input``, ``waiting``, ``servers`` or ``update``; empty if little
    time is lost."""
    problem: str = ""
    """The reason why this number of tasks would not work, such as too little memory or fewer examples than tasks."""


class Forecast(PeerStruct):
    """Examples per second for each number of tasks, with the parts of a step and their uncertainty.

    ``show()`` prints the whole forecast, and ``frame()`` returns a DataFrame with a row for each number of tasks.
    """

    model: str
    settings: ForecastSettings
    """The requested settings, with all defaults filled in."""
    title: str = ""
    """The strategy in words, such as ``all-reduce, ring, 25 Gbit/s Ethernet (TCP)``."""
    source: str = ""
    """The source of the computation time: ``calibration``, ``published``, ``run`` or ``assumed``."""
    points: list[ForecastPoint] = []
    """The points, in order of their number of tasks."""
    pays_until: int = 0
    """The largest number of tasks in ``points`` up to which additional tasks are worthwhile; 0 if even the first number
    is not worthwhile."""
    why: str = ""
    """A sentence that states up to how many tasks additional ones are worthwhile, and why not beyond that number."""
    notes: list[str] = []
    """The assumptions of the forecast."""
    problems: list[Problem] = []

    def frame(self) -> pd.DataFrame:
        """Return a DataFrame with a row for each number of tasks: all fields of a point, and the parts of its step."""
        import pandas as pd

        rows = []
        for point in self.points:
            row = msgspec.structs.asdict(point)
            rows.append({**row, **msgspec.structs.asdict(row.pop("parts"))})
        table: pd.DataFrame = pd.DataFrame(rows)
        return table

    def at(self, tasks: int) -> ForecastPoint:
        """Return the point for a number of tasks. Raises InvalidInput if it was not forecast."""
        for point in self.points:
            if point.tasks == tasks:
                return point
        known = ", ".join(str(point.tasks) for point in self.points)
        raise InvalidInput(f"`tasks` must be one of {known}, got {tasks}", field="tasks")

    def show(self) -> None:
        """Print the forecast, with its assumptions."""
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
    """Return the points as a table for display, with only the columns that carry information."""
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
