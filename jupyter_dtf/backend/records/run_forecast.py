"""Uses a run's measured steps to forecast how the run would scale, and to analyze its efficiency. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from ...errors import Conflict
from ...schema.cluster import CPU_JOBS
from ...schema.efficiency import EfficiencyReport, PartGap
from ...schema.forecast import Forecast, ForecastPoint, ForecastSettings
from ...schema.metrics import STEP_CHECKPOINT, STEP_EXCHANGE, STEP_INPUT, STEP_WAIT
from ...schema.run import RunInfo
from ...schema.sizes import seconds_
from ..planning import forecast as forecasting
from ..planning import networks, workload
from ..planning.allreduce_time import allreduce_s
from ..planning.forecast import Basis, Machines
from .run_record import RunRecord
from .series import Series
from .step_parts import TaskParts, step_parts
from .step_times import LEFT_OUT

_STRATEGIES = {"allreduce": "allreduce", "ps": "ps", "mirrored": "mirrored"}
_SAID = {
    "exchange": "The exchange is not hidden",
    "compute": "Computing is slower than forecast",
    "input": "The input is too slow",
    "checkpoint": "Taking checkpoints is slow",
    "step": "A step is longer than forecast",
}
_SAID_OF_ALL = "Computing, including input and update, is slower than forecast"
_FEWEST = 8
"""A task must have completed at least this many steps for its results to be meaningful."""
_SLOWER = 0.1
"""A task counts as slower than the others if its own part of a step takes longer by this fraction."""
_APART = 0.15
"""A part agrees with the forecast if it differs by less than this fraction of the step."""


@dataclass(frozen=True)
class Measured:
    """Medians of the times that a run's tasks have reported for their steps, in seconds per step."""

    steps: int
    step_s: float
    low_s: float
    exchange_s: float | None
    """Seconds spent in exchanges, including waiting for slower tasks; None if no task reported them."""
    variation: float
    examples_per_s: float
    own_s: dict[str, float]
    """Seconds that each task spends outside its exchanges, keyed by task; empty if no task reported exchanges."""
    within_machines: bool
    """Whether the measured exchanges include those within a machine."""
    input_s: float | None
    """Seconds that the leading task, which the others wait for most, waits for batches; None if not reported."""
    waiting_s: float | None
    """Seconds that the leading task waits for other tasks during its exchange; None if not reported."""
    checkpoint_s: float | None
    """Seconds spent on snapshots for checkpoints, averaged over all steps and in addition to ``step_s``."""
    waits_for_input_s: dict[str, float]
    """Seconds of waiting for batches, for each task that reported them."""


def measured(series: Mapping[tuple[str, str], Series]) -> Measured | None:
    """Return a run's medians, given ``{(metric, task): Series}``; None if no task has completed enough steps."""
    steps = {task: _values(part) for (metric, task), part in series.items() if metric == "step_seconds"}
    steps = {task: values for task, values in steps.items() if values.size >= _FEWEST}
    if not steps:
        return None
    medians = {task: float(np.median(values)) for task, values in steps.items()}
    step = statistics.median(medians.values())
    rates = [
        float(np.median(values))
        for (metric, _), part in series.items()
        if metric == "examples_per_second" and (values := _values(part)).size
    ]
    shares = {
        task: float(np.median(part.value[np.isfinite(part.value)]))
        for (metric, task), part in series.items()
        if metric == "network_seconds" and task in medians and np.isfinite(part.value).any()
    }
    parts = step_parts(series, medians)
    exchanging = {task: each.share(STEP_EXCHANGE) for task, each in parts.items()}
    by_part = {task: share for task, share in exchanging.items() if share is not None}
    shares = by_part or shares
    # The task that the others wait for determines how long a step takes. That task itself waits least.
    leads = min(by_part or parts, key=lambda task: by_part.get(task, 0.0), default=None)
    leading = parts.get(leads or "")
    quarters = [np.quantile(values, (0.25, 0.75)) for values in steps.values()]
    spread = statistics.median(float(high - low) for low, high in quarters) / 1.349  # for a normal distribution
    return Measured(
        steps=max(values.size for values in steps.values()),
        step_s=step,
        low_s=statistics.median(float(low) for low, _ in quarters),
        exchange_s=min(1.0, *shares.values()) * step if shares else None,  # several exchanges may overlap
        variation=min(1.0, spread / step) if step else 0.0,
        examples_per_s=statistics.median(rates) if rates else 0.0,
        own_s={task: medians[task] * max(0.0, 1 - share) for task, share in shares.items()},
        within_machines=bool(by_part),
        input_s=_of_step(leading, STEP_INPUT, step),
        waiting_s=_of_step(leading, STEP_WAIT, step),
        checkpoint_s=max((each.mean(STEP_CHECKPOINT) for each in parts.values()), default=None),
        waits_for_input_s={task: medians[task] * (each.share(STEP_INPUT) or 0.0) for task, each in parts.items()},
    )


def _of_step(parts: TaskParts | None, metric: str, step_s: float) -> float | None:
    share = None if parts is None else parts.share(metric)
    return None if share is None else share * step_s


def run_forecast(record: RunRecord, settings: ForecastSettings) -> Forecast:
    """Return a forecast with ``settings``, based on a run's measured steps.

    Sizes that are not set default to the run's.

    Raises Conflict unless the run is a training run with a supported strategy and enough steps.
    """
    info, found = record.info, measured(dict(record.series))
    strategy, computing = _strategy(info), _computing(info)
    if found is None or not strategy:
        raise Conflict(
            f"To be forecast, a run must train with one of {', '.join(_STRATEGIES)} and have completed at least "
            f"{_FEWEST} steps after the first {LEFT_OUT}, got {info.name} ({info.strategy or info.kind})"
        )
    if not settings.strategy:
        settings = msgspec.structs.replace(settings, strategy=strategy)
    return forecasting.of_basis(_basis(info, found, settings, computing))


def _basis(info: RunInfo, found: Measured, settings: ForecastSettings, tasks: int, left_out_s: float = 0.0) -> Basis:
    """Return the basis of a run's forecast. ``left_out_s``: seconds of a step that are not computation."""
    weights = info.origin.weights or 0
    batch = _batch_size(info, found)
    on_gpu = any(task.gpus for task in info.tasks)
    per_machine = _per_machine(info)
    machines = Machines(tasks=tasks, per_machine=per_machine, on_cpu=not on_gpu, batch_size=batch)
    fabric = networks.fabric(settings, settings.devices_per_machine or per_machine, None, not on_gpu)
    exchange = found.exchange_s
    notes = [f"Compute times come from {found.steps} steps of the run, without their exchange."]
    if exchange is None:
        exchange = min(0.5 * found.step_s, allreduce_s(weights * 4.0, tasks, fabric, "auto")) if tasks > 1 else 0.0
        if tasks > 1:
            notes.append(f"The duration of the exchange was not measured: {seconds_(exchange)} of a step is assumed.")
    if not weights:
        notes.append("The model's number of parameters is unknown, so their exchange is left out.")
    compute = max(found.step_s - exchange - left_out_s, 0.05 * found.step_s)
    work = workload.of_a_run(compute, 0.0, max(1, batch // max(1, tasks)), weights, overlaps=on_gpu)
    if not settings.straggling:
        settings = msgspec.structs.replace(settings, straggling=max(found.variation, 1e-3))
    name = info.origin.model or info.name
    return forecasting.complete(Basis(name, work, fabric, settings, 0, None, tuple(notes)), machines)


def efficiency(record: RunRecord, forecast: Forecast | None = None) -> EfficiencyReport:
    """Compare the parts of a run's steps with the forecast for the same number of tasks.

    Parts that were not measured are reported as such. ``forecast`` defaults to one made from the compute time of the
    run's own steps, so that only exchange and waiting can differ from it. Raises InvalidInput if the forecast does not
    include the run's number of tasks.
    """
    info, found = record.info, measured(dict(record.series))
    tasks, strategy = _computing(info), _strategy(info)
    head = f"{info.name}, {info.strategy or info.kind}, {tasks} task{'s' * (tasks != 1)}"
    if found is None:
        few = f"The run has not taken {_FEWEST} steps after the first {LEFT_OUT}: its efficiency is not known yet."
        return EfficiencyReport(run=info.id, title=head, tasks=tasks, findings=[few])
    if not strategy:
        text = f"Only training runs with {', '.join(_STRATEGIES)} can be compared with a forecast."
        return EfficiencyReport(run=info.id, title=head, tasks=tasks, steps=found.steps, findings=[text])
    is_own = forecast is None
    if forecast is None:
        servers = info.jobs.get("ps") or 1
        settings = ForecastSettings(strategy=strategy, tasks=[tasks], sync=_is_sync(info), servers=servers)
        forecast = forecasting.of_basis(_basis(info, found, settings, tasks, found.input_s or 0.0))
    point = forecast.at(tasks)
    gaps = _gaps(found, point, "; forecast from the run itself" if is_own else "")
    slowest, findings = _findings(found, gaps, _is_sync(info))
    return EfficiencyReport(
        run=info.id,
        title=head,
        tasks=tasks,
        steps=found.steps,
        examples_per_second=found.examples_per_s,
        forecast_examples_per_second=point.examples_per_second,
        efficiency=None if found.exchange_s is None else max(0.0, 1 - found.exchange_s / found.step_s),
        gaps=gaps,
        slowest=slowest,
        findings=findings,
    )


def _gaps(found: Measured, point: ForecastPoint, own: str) -> list[PartGap]:
    """Compare a step and its parts with the forecast. ``own``: the label of the parts taken from the run itself."""
    parts = point.parts
    knows_input, exchange = found.input_s is not None, found.exchange_s
    among = "includes the update" if knows_input else "includes input and update"
    if exchange is None:
        text = "not measured within one machine" if not knows_input else "not measured: TensorFlow performs it"
    elif found.waiting_s is None:
        text = "includes waiting for others" if found.within_machines else ""
    else:
        text = f"of that, {seconds_(found.waiting_s)} waiting for others"
    gaps = [
        PartGap(part="step", forecast_s=point.step_seconds, measured_s=found.step_s),
        PartGap(
            part="input",
            forecast_s=parts.input_s,
            measured_s=found.input_s,
            text="" if knows_input else "not measured: tasks do not distinguish it from computing",
        ),
        PartGap(
            part="compute",
            forecast_s=parts.compute_s,
            measured_s=None if exchange is None else max(0.0, found.step_s - exchange - (found.input_s or 0.0)),
            text=("not measured separately from the exchange" if exchange is None else among) + own,
        ),
        PartGap(part="exchange", forecast_s=parts.exposed_s, measured_s=exchange, text=text),
        PartGap(part="update", forecast_s=parts.update_s, text="not measured separately from computing"),
    ]
    if found.checkpoint_s:
        text = "averaged over all steps, in addition to them"
        gaps.append(PartGap(part="checkpoint", forecast_s=0.0, measured_s=found.checkpoint_s, text=text))
    return gaps


def _findings(found: Measured, gaps: list[PartGap], waits: bool) -> tuple[str, list[str]]:
    """Return the task that the others wait for (empty if there is none), and the findings as sentences.

    The findings are about this task and about differences from the forecast. ``waits``: whether tasks wait for each
    other.
    """
    slowest, said = "", []
    if len(found.own_s) > 1 and waits:
        worst = max(found.own_s, key=lambda task: found.own_s[task])
        others = statistics.median(value for task, value in found.own_s.items() if task != worst)
        if found.own_s[worst] > others * (1 + _SLOWER):
            slowest = worst
            said.append(
                f"Straggler: {worst} takes {seconds_(found.own_s[worst])} for its own part of a step, the others "
                f"{seconds_(others)}; they wait for it.{_why_slow(found, worst, found.own_s[worst] - others)}"
            )
    more = [gap for gap in gaps if gap.measured_s is not None and gap.measured_s > gap.forecast_s]
    for gap in sorted(more, key=lambda gap: gap.forecast_s - (gap.measured_s or 0.0)):
        beyond = (gap.measured_s or 0.0) - gap.forecast_s
        if beyond > _APART * found.step_s and gap.part in _SAID:
            took, was = seconds_(gap.measured_s or 0.0), seconds_(gap.forecast_s)
            what = _SAID_OF_ALL if gap.part == "compute" and found.input_s is None else _SAID[gap.part]
            said.append(f"{what}: it takes {took} of a step, but {was} were forecast.")
    unknown = [gap.part for gap in gaps if gap.measured_s is None]
    if unknown:
        said.append(f"Not measured by this run: {', '.join(unknown)}.")
    return slowest, said


def _why_slow(found: Measured, task: str, longer_s: float) -> str:
    """Return a sentence if waiting for input explains why a task is slower by ``longer_s``, else an empty string."""
    waits = found.waits_for_input_s
    others = [seconds for other, seconds in waits.items() if other != task]
    if task not in waits or not others or waits[task] - statistics.median(others) < longer_s / 2:
        return ""
    theirs = seconds_(statistics.median(others))
    return f" It waits {seconds_(waits[task])} of each step for its batch, the others {theirs}."


def _values(part: Series) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the finite, positive values of the steps after the first ``LEFT_OUT``."""
    value, step = part.value, part.step
    size = min(len(value), len(step))
    kept: np.ndarray[tuple[int], np.dtype[np.float64]] = value[:size][
        (step[:size] > LEFT_OUT) & np.isfinite(value[:size]) & (value[:size] > 0)
    ]
    return kept


def _strategy(info: RunInfo) -> str:
    return _STRATEGIES.get(info.strategy, "") if info.kind == "fit" else ""


def _is_sync(info: RunInfo) -> bool:
    return bool(info.parameters.get("sync", info.strategy != "ps"))


def _computing(info: RunInfo) -> int:
    return max(1, sum(count for job, count in info.jobs.items() if job not in CPU_JOBS))


def _per_machine(info: RunInfo) -> int:
    """Return the largest number of tasks that compute on one host. Each host is assumed to be a separate machine."""
    hosts: dict[str, int] = {}
    for task in info.tasks:
        if task.task.partition(":")[0] not in CPU_JOBS:
            hosts[task.host] = hosts.get(task.host, 0) + 1
    return max(hosts.values(), default=1)


def _batch_size(info: RunInfo, found: Measured) -> int:
    given = info.parameters.get("batch_size")
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return given
    return max(1, round(found.examples_per_s * found.step_s))
