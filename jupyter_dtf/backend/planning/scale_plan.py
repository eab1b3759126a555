"""Finds the fewest machines and the strategy that reach a target, and returns them as a design. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from ...errors import InvalidInput
from ...schema.cluster import CPU_JOBS
from ...schema.design import Design, RunSettings
from ...schema.forecast import ForecastPoint, ForecastSettings
from ...schema.hosts import HostDesign, TaskPlace
from ...schema.placement import Placement
from ...schema.scale_plan import PlanOption, ScalePlan, ScaleTarget
from ...schema.sizes import number
from . import check_design, design_forecast
from .forecast import Basis, basis, of_basis, title

_DEFAULTS = (
    ForecastSettings(),
    ForecastSettings(strategy="ps", sync=True, servers=1),
    ForecastSettings(strategy="ps", sync=True, servers=4),
    ForecastSettings(strategy="pipeline"),
)
_MOST_TASKS = 1024
_HOUR_S = 3600.0
_MOST_DRAWN = 256
"""The maximum number of machines in a returned design; above it, the design has no machines."""


def plan(
    design: Design,
    target: ScaleTarget,
    settings: Sequence[ForecastSettings] = (),
    expected_hosts: Sequence[HostDesign] = (),
) -> ScalePlan:
    """Return the plan for a design's model. ``settings``: the strategies that may be used; empty: the usual ones.

    The ``tasks`` of the settings are the allowed numbers of tasks; empty: any number up to 1,024. Raises InvalidInput.
    """
    graph, machines = design_forecast.model_of(design), design_forecast.machines_of(design, expected_hosts)
    found = []
    for number_, each in enumerate(settings or _DEFAULTS):
        try:
            ground = basis(graph, each, machines, design.calibration)
            found.append((_option(ground, target, any_=not each.tasks), ground))
        except InvalidInput as error:
            raise InvalidInput(str(error), field=f"settings.{number_}.{error.field}") from None
    found.sort(key=lambda pair: _rank(pair[0], target))
    (best, ground), *others = found
    return ScalePlan(
        target=target,
        reached=best.reached,
        best=best,
        others=[option for option, _ in others],
        design=_drawn(design, best, ground) if best.reached else None,
        why=_why(best, target),
    )


def _rank(option: PlanOption, target: ScaleTarget) -> tuple[bool, float, float, float]:
    """Return a sort key that puts the best option first: within a budget the fastest, otherwise the smallest."""
    point = option.point
    rate = -point.examples_per_second
    if target.device_hours or not option.reached:
        return not option.reached, bool(point.problem), rate, point.tasks
    return False, point.machines, point.tasks + point.servers, rate


def _option(ground: Basis, target: ScaleTarget, *, any_: bool) -> PlanOption:
    points: dict[int, ForecastPoint] = {}

    def at(counts: Sequence[int]) -> None:
        asked = msgspec.structs.replace(ground.settings, tasks=[count for count in counts if count not in points])
        if asked.tasks:
            points.update((point.tasks, point) for point in of_basis(_with(ground, asked)).points)

    if any_:
        at([1 << power for power in range(_MOST_TASKS.bit_length())])
        known = sorted(points)
        if (first := next((count for count in known if _reaches(points[count], target)), None)) is not None:
            low = max((count for count in known if count < first), default=0)
            while first - low > 1:  # in this range, more tasks are faster
                middle = (low + first) // 2
                at([middle])
                low, first = (low, middle) if _reaches(points[middle], target) else (middle, first)
    else:
        at(ground.settings.tasks)
    reached = [point for point in points.values() if _reaches(point, target)]
    if target.device_hours:
        chosen = max(reached or points.values(), key=lambda point: (not point.problem, point.examples_per_second))
    elif reached:
        chosen = min(reached, key=lambda point: (point.machines, point.tasks))
    else:
        chosen = max(points.values(), key=lambda point: (not point.problem, point.examples_per_second))
    hours = _hours(chosen, target)
    return PlanOption(
        title=title(ground),
        settings=msgspec.structs.replace(ground.settings, tasks=[chosen.tasks]),
        reached=bool(reached),
        point=chosen,
        hours=hours if math.isfinite(hours) else 0.0,
        device_hours=hours * (chosen.tasks + chosen.servers) if math.isfinite(hours) else 0.0,
        problem=chosen.problem,
    )


def _with(ground: Basis, settings: ForecastSettings) -> Basis:
    return Basis(
        ground.model,
        ground.work,
        ground.fabric,
        settings,
        ground.memory_limit_bytes,
        ground.graph,
        ground.notes,
    )


def _hours(point: ForecastPoint, target: ScaleTarget) -> float:
    if not target.examples:
        return 0.0
    return target.examples / point.examples_per_second / _HOUR_S if point.examples_per_second > 0 else math.inf


def _reaches(point: ForecastPoint, target: ScaleTarget) -> bool:
    if point.problem:
        return False
    if target.examples_per_second:
        return point.examples_per_second >= target.examples_per_second
    hours = _hours(point, target)
    if target.hours:
        return hours <= target.hours
    return hours * (point.tasks + point.servers) <= target.device_hours


def _why(best: PlanOption, target: ScaleTarget) -> str:
    point = best.point
    wanted = (
        f"{number(target.examples_per_second)} examples a second"
        if target.examples_per_second
        else f"{number(target.examples)} examples in {_count(target.hours, 'hour')}"
        if target.hours
        else f"{number(target.examples)} examples for {_count(target.device_hours, 'device-hour')}"
    )
    on = f"{_count(point.tasks, 'task')} on {_count(point.machines, 'machine')}"
    if best.reached:
        return f"{wanted}: {best.title}, {on}, {number(point.examples_per_second)} examples a second."
    return (
        f"No tested option reaches {wanted}. The closest is {best.title}, {on}: "
        f"{number(point.examples_per_second)} examples a second{f' ({best.problem})' if best.problem else ''}."
    )


def _count(value: float, what: str) -> str:
    return f"{number(value)} {what}{'s' * (value != 1)}"


# -- as a design ---------------------------------------------------------------------------------------------------


def _drawn(design: Design, best: PlanOption, ground: Basis) -> Design:
    """Return the design with an option's cluster and run settings and, for a pipeline, its placement."""
    settings, point = best.settings, best.point
    jobs = _jobs(design, point)
    hosts, tasks = list(_hosts(point, ground)), list(_places(jobs, point, ground))
    if len(hosts) > _MOST_DRAWN:
        hosts, tasks = [], []
    stages = min(point.tasks, settings.stages or point.tasks) if settings.strategy == "pipeline" else 1
    made = msgspec.structs.replace(
        design,
        cluster=msgspec.structs.replace(design.cluster, jobs=jobs, hosts=hosts, tasks=tasks),
        placement=Placement(),
        run=RunSettings(
            batch_size=max(1, point.batch_size),
            microbatches=settings.microbatches if settings.strategy == "pipeline" else 1,
            replicas=max(1, point.tasks // stages) if settings.strategy == "pipeline" else 1,
            epochs=design.run.epochs,
        ),
    )
    return msgspec.structs.replace(made, placement=check_design.place(made)) if stages > 1 else made


def _jobs(design: Design, point: ForecastPoint) -> dict[str, int]:
    """Return the jobs of an option. A chief and jobs that do not compute are kept; the option sets the ``ps`` tasks."""
    before = design.cluster.jobs
    jobs = {"chief": 1} if before.get("chief") else {}
    if workers := point.tasks - sum(jobs.values()):
        jobs["worker"] = workers
    if point.servers:
        jobs["ps"] = point.servers
    return jobs | {job: count for job, count in before.items() if job in CPU_JOBS and job != "ps"}


def _hosts(point: ForecastPoint, ground: Basis) -> Iterator[HostDesign]:
    each = ground.fabric.per_machine
    limit = point.memory_limit_bytes
    for machine in range(point.machines):
        count = min(each, point.tasks - machine * each)
        gpus = [limit] * count if ground.work.overlaps else []
        memory = 0 if gpus else limit * count
        yield HostDesign(name=f"machine-{machine}", cpus=max(1, count), memory_bytes=memory, gpus=gpus)


def _places(jobs: dict[str, int], point: ForecastPoint, ground: Basis) -> Iterator[TaskPlace]:
    each = ground.fabric.per_machine
    rank = 0
    for job, count in jobs.items():
        for index in range(count):
            if job in CPU_JOBS:
                yield TaskPlace(job=job, index=index, host=f"machine-{index % point.machines}")
                continue
            device = f"GPU:{rank % each}" if ground.work.overlaps else "CPU"
            yield TaskPlace(job=job, index=index, host=f"machine-{rank // each}", device=device)
            rank += 1
