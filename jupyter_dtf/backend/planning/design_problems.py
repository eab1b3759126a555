"""Finds the problems of a design; each problem names the path of its field. Pure.

Errors that make a design impossible to plan come first (``of_cluster``, ``of_model``, ``of_run``). Other checks are in
``LOOKS``: to add a warning, add a function there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...errors import InvalidInput
from ...schema.cluster import CPU_JOBS, check_jobs
from ...schema.cluster_request import check_name
from ...schema.design import ClusterDesign, Design, DesignProblem, RunSettings
from ...schema.graph import Layer, LayerGraph, containers_of
from ...schema.hosts import HostDesign, wrong_places
from ...schema.placement import SPLITTABLE, Prediction
from ...schema.text import MAX_WHOLE
from .costs import ordered
from .launch_plan import PlannedTask, crowding, main_device

MAX_MICROBATCHES = 256
"""The maximum number of microbatches in a step. It is limited because the pipeline is simulated after every change to
the design."""

DEVICE = re.compile(r"^/job:(?P<job>\w+)/task:(?P<index>[0-9]+)/device:(?:CPU:0|GPU:[0-9]+)\Z")
_MOST_NAMED = 5
_SPLITS = "placement.splits."
"""The prefix of the field path of a split layer."""


@dataclass(frozen=True)
class Looked:
    """A design, and the plan and the prediction that were computed from it."""

    design: Design
    planned: Sequence[PlannedTask] = ()
    """The planned tasks of the design; empty if the cluster cannot be planned."""
    knows_hosts: bool = False
    """Whether the hosts are known, from the design or from the kind of cluster."""
    prediction: Prediction | None = None

    @property
    def graph(self) -> LayerGraph | None:
        return self.design.model.graph if self.design.model else None


def _error(field: str, message: str) -> DesignProblem:
    return DesignProblem(field=field, message=message)


def _warning(field: str, message: str) -> DesignProblem:
    return DesignProblem(field=field, message=message, level="warning")


def of_cluster(cluster: ClusterDesign) -> Iterator[DesignProblem]:
    """Yield the errors of the cluster. A cluster without errors can be planned."""
    try:
        if cluster.name:
            check_name(cluster.name)
        check_jobs(cluster.jobs)
    except InvalidInput as error:
        yield _error(f"cluster.{error.field}", str(error))
        return
    for wrong in wrong_places(cluster.jobs, cluster.hosts, cluster.tasks):
        yield _error(f"cluster.{wrong.field}", str(wrong))


def of_sharing(looked: Looked) -> Iterator[DesignProblem]:
    """Yield the problems of tasks that are assigned to the same device."""
    cluster = looked.design.cluster
    hosts = {host.name: host for host in cluster.hosts}
    together: dict[tuple[str, str], list[int]] = {}
    for number, place in enumerate(cluster.tasks):
        together.setdefault((place.host, place.device), []).append(number)
    for (name, device), numbers in together.items():
        places = [cluster.tasks[number] for number in numbers]
        tasks = ", ".join(place.task for place in places)
        try:
            gpu = places[0].gpu
        except InvalidInput:
            continue
        host = hosts.get(name, HostDesign(name=name))
        there = host.memory_bytes if gpu is None else host.gpus[gpu] if gpu < len(host.gpus) else 0
        caps = sum(place.memory_bytes for place in places)
        if there and caps > there and len(places) > 1:
            for number in numbers:
                yield _error(
                    f"cluster.tasks[{number}].memory_bytes",
                    f"The memory limits of {tasks} must add up to at most the {there} bytes of {device} of {name}, "
                    f"got {caps}",
                )
        elif gpu is not None and len(places) > 1:
            for number in numbers:
                if not cluster.tasks[number].memory_bytes:
                    yield _warning(
                        f"cluster.tasks[{number}].memory_bytes",
                        f"{tasks} share {device} of {name}: without a memory limit, {cluster.tasks[number].task} may "
                        "take all of its memory",
                    )


def of_model(graph: LayerGraph) -> Iterator[DesignProblem]:
    """Yield the errors of the model's graph. Costs can be computed for a graph without errors."""
    seen: set[str] = set()
    for number, layer in enumerate(graph.layers):
        where = f"model.graph.layers[{number}]"
        if not layer.id or layer.id in seen:
            yield _error(f"{where}.id", f"`id` must be unique and not empty, got {layer.id!r:.100}")
        seen.add(layer.id)
        for field in _COUNTS:
            if not 0 <= getattr(layer, field) <= MAX_WHOLE:
                yield _error(
                    f"{where}.{field}", f"`{field}` must be from 0 to {MAX_WHOLE}, got {getattr(layer, field)}"
                )
    loose = False
    for number, edge in enumerate(graph.edges):
        where = f"model.graph.edges[{number}]"
        for field, layer_id in (("source", edge.source), ("target", edge.target)):
            if layer_id not in seen:
                loose = True
                yield _error(f"{where}.{field}", f"`{field}` must be the id of a layer, got {layer_id!r:.100}")
        if not 0 <= edge.bytes <= MAX_WHOLE:
            yield _error(f"{where}.bytes", f"`bytes` must be from 0 to {MAX_WHOLE}, got {edge.bytes}")
    if not loose and len(seen) == len(graph.layers):
        try:
            ordered(graph)
        except InvalidInput as error:
            yield _error("model.graph.edges", str(error))


_COUNTS = [field for field, hint in Layer.__annotations__.items() if hint == "int"]


def of_run(run: RunSettings, cluster: ClusterDesign) -> Iterator[DesignProblem]:
    """Yield the errors of the run's settings."""
    tasks = sum(count for job, count in cluster.jobs.items() if job not in CPU_JOBS)
    if not 1 <= run.batch_size <= MAX_WHOLE:
        yield _error("run.batch_size", f"`batch_size` must be an integer from 1 to {MAX_WHOLE}, got {run.batch_size}")
    elif not 1 <= run.replicas <= min(run.batch_size, max(1, tasks)):
        yield _error(
            "run.replicas",
            f"`replicas` must be from 1 to {min(run.batch_size, max(1, tasks))}, the smaller of the batch size and the "
            f"number of tasks that compute, got {run.replicas}",
        )
    elif not 1 <= run.microbatches <= min(MAX_MICROBATCHES, run.batch_size // run.replicas):
        yield _error(
            "run.microbatches",
            f"`microbatches` must be from 1 to {MAX_MICROBATCHES}, and at most the {run.batch_size // run.replicas} "
            f"examples that each replica gets of a batch, got {run.microbatches}",
        )
    if run.epochs < 1:
        yield _error("run.epochs", f"`epochs` must be an integer >= 1, got {run.epochs}")


def of_crowding(looked: Looked) -> Iterator[DesignProblem]:
    """Yield a warning if the tasks on a host have more threads than the host."""
    if looked.knows_hosts and (crowded := crowding(looked.planned)):
        yield _warning("cluster.jobs", crowded)


def of_placement(looked: Looked) -> Iterator[DesignProblem]:
    """Yield the problems of the placement: unknown layers or devices, invalid splits, unplaced pinned layers."""
    if not looked.planned:
        return
    placement, graph, knows_hosts = looked.design.placement, looked.graph, looked.knows_hosts
    kinds = {layer.id: layer.kind for layer in graph.layers} if graph else {}
    containers = {container for layer in kinds for container in containers_of(layer)}
    places = {task.task: task for task in looked.planned}
    for layer, device in placement.devices.items():
        where = f"placement.devices.{layer}"
        if layer not in kinds and layer not in containers:
            yield _error(where, f"A placed layer must be a layer of the model, got {layer!r:.100}")
        if wrong := _wrong_device(device, places, knows_hosts):
            yield _error(where, wrong)
    for layer, devices in placement.splits.items():
        where = f"placement.splits.{layer}"
        if layer not in kinds:
            yield _error(where, f"A split layer must be a layer of the model, got {layer!r:.100}")
        elif kinds[layer] not in SPLITTABLE:
            yield _error(where, f"A split layer must be of type {' or '.join(SPLITTABLE)}, got {kinds[layer]!r}")
        if len(devices) < 2 or len(set(devices)) < len(devices):
            yield _error(where, f"A layer must be split over at least two different devices, got {devices}")
        if layer in placement.devices:
            yield _error(where, f"A layer must be either placed or split, got both for {layer!r:.100}")
        for device in devices:
            if wrong := _wrong_device(device, places, knows_hosts):
                yield _error(where, wrong)
    for number, layer in enumerate(placement.pinned):
        if layer not in placement.devices and layer not in placement.splits:
            yield _warning(f"placement.pinned[{number}]", f"{layer} is pinned but has no place")


def _wrong_device(device: str, places: dict[str, PlannedTask], knows_hosts: bool) -> str:
    match = DEVICE.match(device)
    if match is None:
        return f"A device must be written as in /job:worker/task:1/device:CPU:0, got {device!r:.100}"
    task = places.get(f"{match['job']}:{int(match['index'])}")
    if task is None or task.job in CPU_JOBS:
        named = [name for name, there in places.items() if there.job not in CPU_JOBS]
        return f"Layers must be on one of the tasks {_few(named)}, got {device!r}"
    if knows_hosts and device not in task.devices:
        return f"The device must be one of {task.task}'s, {', '.join(task.devices)}, got {device!r}"
    return ""


def of_prediction(looked: Looked) -> Iterator[DesignProblem]:
    """Yield the problems that the prediction of a step reports, such as too little memory."""
    for problem in looked.prediction.problems if looked.prediction else ():
        yield DesignProblem(field=problem.field, message=problem.message, level=problem.level)


def of_idle(looked: Looked) -> Iterator[DesignProblem]:
    """Yield a warning, with the reason, for each task that has no layer although layers are placed."""
    design, prediction = looked.design, looked.prediction
    reasons = {load.device: load.unused for load in prediction.devices} if prediction else {}
    placement = design.placement
    used = {*placement.devices.values(), *(device for devices in placement.splits.values() for device in devices)}
    busy = {device.rpartition("/device:")[0] for device in used}
    if not busy or design.run.replicas > 1:
        return
    chips = {place.task: number for number, place in enumerate(design.cluster.tasks)}
    for task in looked.planned:
        if task.job not in CPU_JOBS and f"/job:{task.job}/task:{task.index}" not in busy:
            field = f"cluster.tasks[{chips[task.task]}]" if task.task in chips else f"cluster.jobs.{task.job}"
            reason = reasons.get(main_device(task), "")
            yield _warning(field, f"{task.task} has no layer{reason and f': {reason}'}")


def of_training(looked: Looked) -> Iterator[DesignProblem]:
    """Yield a warning for each reason why ``fit`` would reject the model as it was when its graph was recorded."""
    design, graph = looked.design, looked.graph
    splits = design.placement.splits
    holds = {"model": True, "run.replicas": design.run.replicas > 1, "placement.splits": bool(splits)}
    for refusal in graph.refusals if graph else ():
        of_split = refusal.field.startswith(_SPLITS) and refusal.field.removeprefix(_SPLITS) in splits
        if holds.get(refusal.field, of_split):
            yield _warning(refusal.field, f"fit would refuse the model: {refusal.message}")


def of_calibration(looked: Looked) -> Iterator[DesignProblem]:
    """Yield a warning if the calibration was measured with another model."""
    calibration, graph = looked.design.calibration, looked.graph
    if calibration is None or graph is None:
        return
    missing = [layer.id for layer in graph.layers if layer.flops and layer.id not in calibration.layer_seconds]
    if missing:
        yield _warning("calibration", f"The calibration was measured with another model: it lacks {_few(missing)}")


LOOKS: tuple[Callable[[Looked], Iterator[DesignProblem]], ...] = (
    of_sharing,
    of_crowding,
    of_placement,
    of_calibration,
    of_training,
    of_prediction,
    of_idle,
)


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"
