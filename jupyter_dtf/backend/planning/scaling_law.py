"""Models one training step of a number of tasks, for each strategy. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec

from ...schema.forecast import ForecastSettings
from ...schema.graph import LayerGraph
from ...schema.placement import Link
from . import servers_law
from .allreduce_time import overlapped
from .networks import Fabric
from .order_statistics import slowest
from .pipeline_law import Layered, Staged
from .workload import Workload

_SHARE = {"none": 1.0, "fp16": 0.5, "bf16": 0.5}
"""The fraction of a float32's bytes that is sent, keyed by compression."""


@dataclass(frozen=True)
class Step:
    """One training step. Times are those of one task; all of them except ``hidden_s`` add up to ``step_s``."""

    examples: float
    """The examples in a step of all tasks together; in asynchronous training, the sum over one step of each task."""
    step_s: float
    examples_per_s: float
    updates_per_s: float
    input_s: float = 0.0
    compute_s: float = 0.0
    hidden_s: float = 0.0
    exposed_s: float = 0.0
    update_s: float = 0.0
    idle_s: float = 0.0
    sent_bytes: float = 0.0
    memory_bytes: float = 0.0
    staleness: float = 0.0
    dropped: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class Situation:
    """The workload, the settings and the machines of a forecast. All defaults in ``settings`` have been filled in."""

    work: Workload
    fabric: Fabric
    settings: ForecastSettings
    graph: LayerGraph | None = None
    slower: float = 1.0
    _layered: list[Layered] = field(default_factory=list)
    _staged: dict[int, Staged] = field(default_factory=dict)
    """The staged models, keyed by number of stages. Derived situations share them: the cuts do not depend on speeds."""

    def with_speeds(self, compute: float, network: float) -> Situation:
        """Return a copy in which computing takes ``compute`` times as long and links are ``network`` times as fast."""
        fabric = replace(
            self.fabric, within=_faster(self.fabric.within, network), between=_faster(self.fabric.between, network)
        )
        return replace(self, work=self.work.scaled(compute), fabric=fabric, slower=self.slower * compute)

    def staged(self, stages: int) -> Staged:
        """Return the model cut into this many stages, for devices as fast as in the original situation."""
        assert self.graph is not None
        if not self._layered:
            self._layered.append(Layered(self.graph, self.work.scaled(1 / self.slower)))
        if stages not in self._staged:
            self._staged[stages] = Staged(self._layered[0], stages, self.settings.microbatches)
        return self._staged[stages]


def step_of(situation: Situation, tasks: int) -> Step:
    """Model a step of this many tasks, with the strategy of the settings."""
    settings = situation.settings
    per_task = float(settings.per_device) or settings.batch_size / tasks
    found = _STRATEGIES[settings.strategy](situation, tasks, per_task)
    if per_task < 1 and not found.problem:
        found = replace(found, problem=f"{settings.batch_size} examples in a step are fewer than {tasks} tasks")
    return _with_input(found, settings.input_examples_per_s, per_task)


def _allreduce(situation: Situation, tasks: int, examples: float) -> Step:
    work, settings = situation.work, situation.settings
    compute = work.compute_s(examples)
    exchange = overlapped(
        work.gradient_bytes,
        work.backward_ends_s(examples),
        tasks,
        situation.fabric,
        settings.algorithm,
        share=_SHARE[settings.compression],
        overlaps=work.overlaps,
    )
    idle = compute * (slowest(tasks, settings.straggling) - 1)
    step = compute + exchange.exposed_s + work.update_s + idle
    return Step(
        examples=examples * tasks,
        step_s=step,
        examples_per_s=examples * tasks / step,
        updates_per_s=1 / step,
        compute_s=compute,
        hidden_s=exchange.hidden_s,
        exposed_s=exchange.exposed_s,
        update_s=work.update_s,
        idle_s=idle,
        sent_bytes=exchange.sent_bytes,
        memory_bytes=work.memory_bytes(examples),
    )


def _servers(situation: Situation, tasks: int, examples: float) -> Step:
    work, settings = situation.work, situation.settings
    compute = work.compute_s(examples)
    size = work.gradients * _SHARE[settings.compression]
    together = tasks + settings.servers <= situation.fabric.per_machine
    link = situation.fabric.within if together else situation.fabric.between
    backup = settings.backup_workers
    if backup >= tasks > 1:
        return Step(
            examples=0.0,
            step_s=compute,
            examples_per_s=0.0,
            updates_per_s=0.0,
            compute_s=compute,
            problem=f"{backup} backup workers among {tasks} workers leave none to wait for",
        )
    if settings.sync:
        found = servers_law.synchronous(
            compute,
            size,
            tasks,
            settings.servers,
            link,
            update_s=work.update_s,
            variation=settings.straggling,
            backup=min(backup, tasks - 1),
        )
        rate, updates, staleness = found.steps_per_s * tasks * (1 - found.dropped), found.steps_per_s, 0.0
    else:
        found = servers_law.asynchronous(compute, size, tasks, settings.servers, link, update_s=work.update_s)
        rate = updates = found.steps_per_s * tasks
        staleness = float(tasks - 1)  # between two gradients of a task, each other task sends one
    step = 1 / found.steps_per_s
    return Step(
        examples=examples * tasks * (1 - found.dropped),
        step_s=step,
        examples_per_s=examples * rate,
        updates_per_s=updates,
        compute_s=found.compute_s,
        exposed_s=found.exchange_s,
        update_s=found.update_s,
        idle_s=found.idle_s,
        sent_bytes=size,
        memory_bytes=work.memory_bytes(examples) - work.slot_bytes,
        staleness=staleness,
        dropped=found.dropped,
    )


def _in_graph(situation: Situation, tasks: int, examples: float) -> Step:
    work, settings = situation.work, situation.settings
    compute = work.compute_s(examples)
    fabric = situation.fabric
    link = fabric.within if tasks <= fabric.per_machine else fabric.between
    exposed = servers_law.one_client(work.gradients, tasks, link)
    idle = compute * (slowest(tasks, settings.straggling) - 1)
    step = compute + exposed + work.update_s + idle
    return Step(
        examples=examples * tasks,
        step_s=step,
        examples_per_s=examples * tasks / step,
        updates_per_s=1 / step,
        compute_s=compute,
        exposed_s=exposed,
        update_s=work.update_s,
        idle_s=idle,
        sent_bytes=work.gradients * (tasks - 1),
        memory_bytes=work.memory_bytes(examples),
    )


def _pipeline(situation: Situation, tasks: int, examples: float) -> Step:
    settings = situation.settings
    if situation.graph is None:
        return _unknown("a pipeline's forecast needs the layers of the model")
    wanted = tasks if settings.replicas == 1 and not settings.stages else min(tasks, settings.stages)
    staged = situation.staged(wanted)
    replicas = max(1, tasks // wanted)
    problem = ""
    if staged.stages < wanted:
        problem = f"{wanted} stages are more than the model has layers"
    elif replicas * wanted != tasks:
        problem = f"{tasks} tasks are not a whole number of copies of {wanted} stages"
    elif settings.replicas > 1 and replicas != settings.replicas and tasks > wanted:
        problem = f"{tasks} tasks in {wanted} stages are {replicas} copies, not {settings.replicas}"
    whole = examples * tasks
    if whole / replicas < settings.microbatches and not problem:
        problem = f"{whole / replicas:.0f} examples per copy are fewer than {settings.microbatches} microbatches"
    found = staged.step(whole / replicas, replicas, situation.fabric, situation.slower)
    computing = found.compute_s
    waiting = computing * (slowest(tasks, settings.straggling) - 1)
    step = found.step_s + waiting
    update = min(found.update_s, step - computing)
    exposed = min(found.exposed_s, max(0.0, step - computing - update))
    return Step(
        examples=whole,
        step_s=step,
        examples_per_s=whole / step,
        updates_per_s=1 / step,
        compute_s=computing,
        exposed_s=exposed,
        update_s=update,
        idle_s=max(0.0, step - computing - exposed - update),
        sent_bytes=found.sent_bytes,
        memory_bytes=found.memory_bytes,
        problem=problem,
    )


def _with_input(step: Step, examples_per_s: float, per_task: float) -> Step:
    """Add the wait for input. Input is read ahead, so a task waits only if reading takes longer than the step."""
    wait = per_task / examples_per_s - step.step_s if examples_per_s else 0.0
    if wait <= 0 or not step.examples_per_s:
        return step
    factor = step.step_s / (step.step_s + wait)
    return replace(
        step,
        input_s=wait,
        step_s=step.step_s + wait,
        examples_per_s=step.examples_per_s * factor,
        updates_per_s=step.updates_per_s * factor,
    )


def _unknown(problem: str) -> Step:
    return Step(examples=0.0, step_s=0.0, examples_per_s=0.0, updates_per_s=0.0, problem=problem)


def _faster(link: Link, factor: float) -> Link:
    return msgspec.structs.replace(link, bytes_per_s=link.bytes_per_s * factor)


_STRATEGIES: dict[str, Callable[[Situation, int, float], Step]] = {
    "allreduce": _allreduce,
    "ps": _servers,
    "mirrored": _in_graph,
    "pipeline": _pipeline,
}
