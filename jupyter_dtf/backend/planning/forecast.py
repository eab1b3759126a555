"""Forecasts the examples per second and the parts of a step for each number of tasks, with uncertainty. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from ...errors import InvalidInput
from ...schema.forecast import Forecast, ForecastPoint, ForecastSettings, StepParts
from ...schema.graph import LayerGraph
from ...schema.placement import Calibration, Link
from ...schema.sizes import bytes_
from . import devices_table, networks, workload
from .networks import Fabric
from .scaling_law import Situation, Step, step_of
from .workload import Workload

USUAL_TASKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
UNSURE = {"calibration": 0.07, "run": 0.07, "published": 0.25, "assumed": 0.5}
"""The relative error of the compute time, keyed by the source of the time."""
UNSURE_NETWORK = 0.25
"""The relative error of the network's bandwidth."""
STRAGGLING = 0.03
"""The assumed variation in step times between tasks if it has not been measured."""
_MUCH = 0.02
"""The largest loss of time in a step is reported as its limit if it is more than this fraction of the step."""


@dataclass(frozen=True)
class Basis:
    """The inputs of a forecast."""

    model: str
    work: Workload
    fabric: Fabric
    settings: ForecastSettings
    """The settings, with all defaults filled in."""
    memory_limit_bytes: int = 0
    graph: LayerGraph | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Machines:
    """The known figures of the machines of a design or cluster."""

    tasks: int = 1
    """The number of compute tasks."""
    servers: int = 0
    per_machine: int = 1
    on_cpu: bool = True
    flops_per_s: float = 1e10
    memory_bytes: int = 0
    batch_size: int = 64
    """The total number of examples in a step, over all tasks."""
    microbatches: int = 8
    replicas: int = 1


def forecast(
    graph: LayerGraph,
    settings: ForecastSettings,
    machines: Machines | None = None,
    calibration: Calibration | None = None,
) -> Forecast:
    """Return the forecast for a model on the given machines. Raises InvalidInput."""
    return of_basis(basis(graph, settings, machines or Machines(), calibration))


def basis(
    graph: LayerGraph, settings: ForecastSettings, machines: Machines, calibration: Calibration | None = None
) -> Basis:
    """Return the basis of a model's forecast. Raises InvalidInput for unknown devices and networks."""
    if not graph.layers:
        raise InvalidInput("`graph` must have at least one layer, got none", field="model")
    on_cpu = settings.device == "CPU" if settings.device else machines.on_cpu
    limit, notes = machines.memory_bytes, []
    if settings.device:
        figures = devices_table.device(settings.device, settings.precision)
        work = workload.published(graph, figures, settings.precision, settings.utilization)
        limit = figures.memory_bytes
        used = settings.utilization or figures.utilization or devices_table.UTILIZATION[settings.precision]
        notes.append(
            f"Compute times come from the figures of {figures.title}: {settings.precision}, {used:.0%} of the peak "
            "for layers limited by arithmetic. A calibration is more accurate."
        )
    elif calibration is not None:
        work = workload.calibrated(graph, calibration, on_cpu=on_cpu)
        notes.append("Compute times come from a calibration.")
    else:
        work = workload.assumed(graph, machines.flops_per_s, on_cpu=on_cpu)
        notes.append(
            f"The devices have not been measured: {machines.flops_per_s:.2g} operations per second are assumed. "
            "Name a device, or calibrate."
        )
    measured = calibration.link if calibration is not None and not settings.device else None
    return complete(
        Basis(graph.model, work, _fabric(settings, machines, measured, on_cpu), settings, limit, graph, tuple(notes)),
        machines,
    )


def _fabric(settings: ForecastSettings, machines: Machines, measured: Link | None, on_cpu: bool) -> Fabric:
    return networks.fabric(settings, settings.devices_per_machine or machines.per_machine, measured, on_cpu)


def complete(found: Basis, machines: Machines) -> Basis:
    """Return the basis with default settings filled in."""
    settings = found.settings
    if not settings.strategy:
        settings = msgspec.structs.replace(settings, strategy="allreduce")
    open_: dict[str, object] = {"devices_per_machine": found.fabric.per_machine}
    if not settings.tasks:
        open_["tasks"] = list(USUAL_TASKS)
    if not settings.batch_size and not settings.per_device:
        open_["per_device"] = max(1, machines.batch_size // max(1, machines.tasks))
    if not settings.microbatches:
        open_["microbatches"] = machines.microbatches
    if not settings.stages and settings.strategy == "pipeline" and settings.replicas != 1:
        open_["stages"] = max(2, machines.tasks // max(1, machines.replicas)) if machines.tasks > 1 else 2
    if not settings.straggling:
        open_["straggling"] = STRAGGLING
    notes = list(found.notes)
    if found.fabric.is_assumed:
        notes.append("The network is unknown: 10 Gbit/s Ethernet is assumed.")
    return replace(found, settings=msgspec.structs.replace(settings, **open_), notes=tuple(notes))


def of_basis(found: Basis) -> Forecast:
    """Return the forecast for a basis. Raises InvalidInput."""
    settings = found.settings
    usual = Situation(found.work, found.fabric, settings, found.graph)
    unsure = UNSURE[found.work.source]
    slow = usual.with_speeds(1 + unsure, 1 / (1 + UNSURE_NETWORK))
    fast = usual.with_speeds(1 / (1 + unsure), 1 + UNSURE_NETWORK)
    tasks = sorted(set(settings.tasks))
    points = [_point(found, count, [step_of(each, count) for each in (usual, slow, fast)]) for count in tasks]
    _compare(points, one=step_of(usual, 1).examples_per_s)
    pays, why = _where_it_pays(points, settings.threshold)
    return Forecast(
        model=found.model,
        settings=settings,
        title=title(found),
        source=found.work.source,
        points=points,
        pays_until=pays,
        why=why,
        notes=[*found.notes, *_notes(found)],
    )


def title(found: Basis) -> str:
    """Describe the strategy and the network in words."""
    settings, fabric = found.settings, found.fabric
    if settings.strategy == "allreduce":
        algorithm = "hierarchical ring" if settings.algorithm == "auto" else settings.algorithm
        words = f"all-reduce, {algorithm}"
    elif settings.strategy == "ps":
        count = f"{settings.servers} parameter server{'s' * (settings.servers > 1)}"
        backup = f", {settings.backup_workers} backup" if settings.backup_workers else ""
        words = f"{count}, {'synchronous' if settings.sync else 'asynchronous'}{backup}"
    elif settings.strategy == "pipeline":
        depth = f"{settings.stages} stages" if settings.stages else "one stage per task"
        words = f"pipeline, {depth}, {settings.microbatches} microbatches"
    else:
        words = "in-graph replicas"
    return f"{words}, {fabric.title}"


def _point(found: Basis, tasks: int, steps: Sequence[Step]) -> ForecastPoint:
    usual, slow, fast = steps
    settings = found.settings
    parts = StepParts(
        input_s=usual.input_s,
        compute_s=usual.compute_s,
        hidden_s=usual.hidden_s,
        exposed_s=usual.exposed_s,
        update_s=usual.update_s,
        idle_s=usual.idle_s,
    )
    memory = round(usual.memory_bytes)
    limit = found.memory_limit_bytes
    problem = usual.problem
    if not problem and 0 < limit < memory:
        problem = f"needs {bytes_(memory)} of memory, but has {bytes_(limit)}"
    return ForecastPoint(
        tasks=tasks,
        servers=settings.servers if settings.strategy == "ps" else 0,
        machines=found.fabric.machines(tasks),
        batch_size=round(usual.examples),
        step_seconds=usual.step_s,
        parts=parts,
        examples_per_second=usual.examples_per_s,
        low=min(slow.examples_per_s, usual.examples_per_s),
        high=max(fast.examples_per_s, usual.examples_per_s),
        updates_per_second=usual.updates_per_s,
        staleness=usual.staleness,
        dropped=usual.dropped,
        sent_bytes=round(usual.sent_bytes),
        memory_bytes=memory,
        memory_limit_bytes=limit,
        limit=_limit(usual, settings),
        problem=problem,
    )


def _compare(points: Sequence[ForecastPoint], one: float) -> None:
    """Fill in what depends on other points. ``one``: the examples per second of a single task."""
    before_tasks, before = 0, 0.0
    for point in points:
        point.linear = one * point.tasks
        point.efficiency = point.examples_per_second / point.linear if point.linear else 0.0
        added = (point.tasks - before_tasks) * one
        point.marginal = (point.examples_per_second - before) / added if added else 0.0
        before_tasks, before = point.tasks, point.examples_per_second


def _where_it_pays(points: Sequence[ForecastPoint], threshold: float) -> tuple[int, str]:
    pays = 0
    for point in points:
        if point.problem or point.marginal < threshold:
            why = point.problem or {
                "exchange": "the exchange takes too long",
                "servers": "the parameter servers are busy",
                "waiting": "tasks wait for each other",
                "input": "the input is too slow",
                "update": "the update takes too long",
            }.get(point.limit, "each task has too little to do")
            first = f"From {pays} to {point.tasks} tasks" if pays else f"At {point.tasks} task{'s' * (point.tasks > 1)}"
            gain = f"each additional task adds {point.marginal:.0%} of the throughput of a single task"
            if point.marginal < 0:
                gain = "all tasks together are slower"
            return pays, f"{first} it does not pay: {why}" + ("." if point.problem else f"; {gain}.")
        pays = point.tasks
    return pays, f"It pays up to {pays} tasks, the most that were requested." if points else ""


def _limit(step: Step, settings: ForecastSettings) -> str:
    """Return the name of the largest loss of time in a step; empty if it is at most ``_MUCH`` of the step."""
    exchange = "servers" if settings.strategy == "ps" else "exchange"
    waiting = "servers" if settings.strategy == "ps" and not settings.sync else "waiting"
    lost = {"input": step.input_s, exchange: step.exposed_s, "update": step.update_s}
    lost[waiting] = lost.get(waiting, 0.0) + step.idle_s
    worst = max(lost, key=lambda name: lost[name])
    return worst if lost[worst] > _MUCH * step.step_s and math.isfinite(step.step_s) else ""


def _notes(found: Basis) -> list[str]:
    settings = found.settings
    notes = [
        f"Step times are assumed to vary by {settings.straggling:.0%} from task to task.",
        f"The band assumes that computing is {UNSURE[found.work.source]:.0%} and the network {UNSURE_NETWORK:.0%} "
        "faster or slower.",
    ]
    if not found.work.overlaps and settings.strategy == "allreduce":
        notes.append("A task on a CPU does not compute while it exchanges gradients.")
    return notes
