"""How far a training would scale: what is asked, and what is answered. Inert; ``backend/planning`` computes it."""

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
"""What is forecast: all-reduce, parameter servers, in-graph towers, pipelines."""
ALGORITHMS = ("auto", "ring", "hierarchical", "tree")
"""How an all-reduce goes about it."""
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
"""What a device computes in. Not every device has all of them."""
TRANSPORTS = ("tcp", "rdma")
"""How tasks of several machines send."""
COMPRESSIONS = ("none", "fp16", "bf16")
"""What gradients travel as."""

MAX_TASKS = 65_536
MAX_POINTS = 64
"""So many numbers of tasks are forecast at once, at most."""
MAX_FIGURE = 1e18
"""No figure that a person gives is beyond it: what is computed from them stays finite."""


_COUNTS = ("batch_size", "per_device", "backup_workers", "microbatches", "stages", "replicas", "devices_per_machine")


class ForecastSettings(Struct):
    """What is to be forecast. Empty and 0 leave it to the design, its calibration, or the defaults."""

    strategy: str = "allreduce"
    """``allreduce``, ``ps``, ``mirrored`` (in-graph) or ``pipeline``."""
    tasks: list[int] = []
    """How many tasks compute; empty: 1, 2, 4, ..., 512. A ``ps`` task comes on top. Of a pipeline: all of its stages
    and replicas."""
    batch_size: int = 0
    """Examples in a step of all tasks together, the same for every number of tasks (strong scaling)."""
    per_device: int = 0
    """Examples in a step of each task (weak scaling). If both are 0, as many as each task has in the design."""
    algorithm: str = "auto"
    """Of all-reduce: ``ring``, ``hierarchical`` (a ring between machines, each of which sums up first), ``tree``, or
    ``auto``, what ``dtf.AllReduce`` would do."""
    compression: str = "none"
    """Of gradients on their way: ``none``, ``fp16``, ``bf16``."""
    sync: bool = False
    """Of ``ps``: whether all workers wait for the slowest in each step. As ``dtf.ParameterServer``, not by default."""
    servers: int = 1
    """The number of ``ps`` tasks, which share the variables."""
    backup_workers: int = 0
    """Of ``ps`` with ``sync``: so many of the last gradients of each step are not waited for."""
    microbatches: int = 0
    """Of a pipeline. 0: the design's."""
    stages: int = 0
    """Of a pipeline: devices that one copy of the model is spread over. 0: the design's, or 2."""
    replicas: int = 0
    """Of a pipeline: the copies of the model. 0: as many as there are tasks for; 1: all tasks are stages of one."""
    device: str = ""
    """A device of ``GET /hardware``, such as ``A100``. Empty: what the calibration measured, or else one that is taken
    to do what the designer's do."""
    precision: str = "fp32"
    utilisation: float = 0.0
    """What part of the device's peak a step reaches, from 0 to 1. 0: the table's."""
    network: str = ""
    """Between machines: a network of ``GET /hardware``, such as ``25gbit``. Empty: ``link``, the calibration's, or
    10 Gbit/s."""
    transport: str = "tcp"
    """Over that network: ``tcp`` or ``rdma``."""
    local: str = ""
    """Between the devices of one machine: a network of ``GET /hardware``. Empty: ``pcie3``, or ``memory`` for CPUs."""
    link: Link | None = None
    """Measured between machines, by ``jupyter dtf doctor --network`` for instance. It goes before ``network``."""
    devices_per_machine: int = 0
    """0: the most that a host of the design has, or 1."""
    input_examples_per_s: float = 0.0
    """What the input pipeline of each task yields; 0: it never holds the step up."""
    straggling: float = 0.0
    """How much the steps of a task vary: the standard deviation of their time, as a part of their mean. 0: as
    measured, or a usual value."""
    threshold: float = 0.5
    """More tasks pay as long as they add at least this part of what as many perfect ones would."""

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
    """A design that has a model, and what is to be forecast of it; for comparison several at once."""

    design: Design
    settings: list[ForecastSettings] = msgspec.field(default_factory=lambda: [ForecastSettings()])

    def __post_init__(self) -> None:
        if not 1 <= len(self.settings) <= 16:
            raise InvalidInput(f"`settings` must have from 1 to 16 items, got {len(self.settings)}", field="settings")


class StepParts(PeerStruct):
    """A step of one task, from its beginning to its end, in seconds. The parts but for ``hidden_s`` add up to it."""

    input_s: float = 0.0
    """Waiting for the next batch."""
    compute_s: float = 0.0
    """Forward and backward pass."""
    hidden_s: float = 0.0
    """Exchanging while the backward pass goes on: this costs nothing."""
    exposed_s: float = 0.0
    """Exchanging while nothing is computed."""
    update_s: float = 0.0
    """The optimizer."""
    idle_s: float = 0.0
    """Waiting for other tasks: the slowest of a step, other stages of a pipeline, a busy parameter server."""


class ForecastPoint(PeerStruct):
    """What so many tasks would do."""

    tasks: int
    """That compute."""
    servers: int = 0
    """``ps`` tasks on top."""
    machines: int = 1
    """That the computing tasks are on."""
    batch_size: int = 0
    """Examples in a step of all tasks; of asynchronous training, of one step of each."""
    step_seconds: float = 0.0
    parts: StepParts = msgspec.field(default_factory=StepParts)
    examples_per_second: float = 0.0
    low: float = 0.0
    """Examples per second if compute and network do less than was taken."""
    high: float = 0.0
    """The same if they do more."""
    linear: float = 0.0
    """Examples per second if every task did what one does alone."""
    efficiency: float = 0.0
    """``examples_per_second`` over ``linear``."""
    marginal: float = 0.0
    """What each task gives that is more than at the point before, as a part of what one does alone."""
    updates_per_second: float = 0.0
    """Of the variables."""
    staleness: float = 0.0
    """Updates by others between a worker's fetching the variables and its gradient's being applied; the mean."""
    dropped: float = 0.0
    """The part of the gradients that come too late (backup workers)."""
    sent_bytes: int = 0
    """By each task in a step."""
    memory_bytes: int = 0
    """That the fullest device needs."""
    memory_limit_bytes: int = 0
    """That a device has; 0 where that is not known."""
    limit: str = ""
    """What takes most of the time that is lost: ``exchange``, ``input``, ``waiting``, ``servers``, ``update``; empty
    where nothing much is lost."""
    problem: str = ""
    """Why it would not work: memory, more tasks than examples."""


class Forecast(PeerStruct):
    """Examples per second over numbers of tasks, with what a step is made of and how sure that is.

    ``show()`` prints all of it, ``frame()`` is a DataFrame with a row for each number of tasks.
    """

    model: str
    settings: ForecastSettings
    """Those that were asked for, with what was left open filled in."""
    title: str = ""
    """The strategy in words: ``all-reduce, ring, 25 Gbit/s Ethernet (TCP)``."""
    source: str = ""
    """Where the seconds of compute are from: ``calibration``, ``published``, ``run`` or ``assumed``."""
    points: list[ForecastPoint] = []
    """By number of tasks."""
    pays_until: int = 0
    """The largest number of tasks of ``points`` up to which more of them pay; 0 if not even the first does."""
    why: str = ""
    """A sentence on where it stops paying, and why."""
    notes: list[str] = []
    """What the forecast takes for granted."""
    problems: list[Problem] = []

    def frame(self) -> pd.DataFrame:
        """A row for each number of tasks: all fields of a point, those of its step's parts among them."""
        import pandas as pd

        rows = []
        for point in self.points:
            row = msgspec.structs.asdict(point)
            rows.append({**row, **msgspec.structs.asdict(row.pop("parts"))})
        table: pd.DataFrame = pd.DataFrame(rows)
        return table

    def at(self, tasks: int) -> ForecastPoint:
        """The point of so many tasks. Raises InvalidInput where it was not forecast."""
        for point in self.points:
            if point.tasks == tasks:
                return point
        known = ", ".join(str(point.tasks) for point in self.points)
        raise InvalidInput(f"`tasks` must be one of {known}, got {tasks}", field="tasks")

    def show(self) -> None:
        """Print it, with what it takes for granted."""
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
    """A table as a person reads it: only columns that say something."""
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
