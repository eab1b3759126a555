"""What a design would make, and what is wrong with it. Pure.

A design that contradicts itself can be opened and saved: every contradiction is a problem with the path of its field,
and is drawn there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..errors import InvalidInput
from ..schema.api import ClusterInfo, ClusterRequest, check_name
from ..schema.cluster import CPU_JOBS, check_jobs
from ..schema.design import ClusterDesign, Design, DesignProblem, DesignReport, RunSettings
from ..schema.graph import Layer, LayerGraph
from ..schema.hosts import HostDesign, TaskPlace, wrong_places
from ..schema.placement import Calibration, Device, Placement
from ..schema.text import MAX_WHOLE
from . import placement as placing
from .costs import SPLITTABLE, ordered
from .plan import Drawing, PlannedTask, crowding, plan, promised_slots, tf_configs
from .prediction import predict

CPU_FLOPS_PER_S = 1e10
"""What a device is taken to do before anybody has measured it: about one core."""
GPU_FLOPS_PER_S = 1e13
MAX_MICROBATCHES = 256
"""The pipeline of a step is played through on every change."""

_DEVICE = re.compile(r"^/job:(?P<job>\w+)/task:(?P<index>[0-9]+)/device:(?:CPU:0|GPU:[0-9]+)\Z")
_MOST_NAMED = 5


# -- looking at a design -------------------------------------------------------------------------------------------


def check(design: Design, promised: Sequence[HostDesign] = ()) -> DesignReport:
    """The report of a design. ``promised``: the hosts of its kind of cluster, where none were drawn."""
    cluster, graph = design.cluster, design.model.graph if design.model else None
    wrong_cluster = list(_of_cluster(cluster))
    planned = [] if wrong_cluster else _planned(cluster, promised)
    wrong_model = list(_of_model(graph)) if graph else []
    wrong_run = list(_of_run(design.run, cluster))
    problems = [*wrong_cluster, *_sharing(cluster), *wrong_model, *wrong_run]
    if planned:
        knows_hosts = bool(cluster.hosts or promised)
        if knows_hosts and (crowded := crowding(planned)):
            problems.append(_warning("cluster.jobs", crowded))
        problems += _of_placement(design, planned, knows_hosts=knows_hosts)
    problems += _of_calibration(design.calibration, graph)
    spec, tf_config = tf_configs(cluster.jobs) if planned else ({}, {})
    report = DesignReport(
        cluster_spec=spec,
        tf_config=tf_config,
        devices={task.task: _main_device(task) for task in planned},
        problems=problems,
    )
    is_placed = bool(design.placement.devices or design.placement.splits)
    if graph and planned and is_placed and not wrong_model and not wrong_run:
        report.prediction = predict(
            graph,
            _by_layer(design.placement, graph),
            [*(devices := _devices(cluster, promised, planned)), *_others(design.placement, devices)],
            batch_size=design.run.batch_size,
            microbatches=design.run.microbatches,
            replicas=design.run.replicas,
            calibration=design.calibration,
        )
        report.problems += [
            DesignProblem(field=problem.field, message=problem.message, level=problem.level)
            for problem in report.prediction.problems
        ]
    return report


def place(design: Design, promised: Sequence[HostDesign] = ()) -> Placement:
    """An automatic placement of a design's model, which leaves pinned layers where they are.

    Raises InvalidInput for a design without a model, for what is wrong with it, and if the layers do not fit.
    """
    if design.model is None or not design.model.graph.layers:
        raise InvalidInput("A model is placed. Received: a design without one", field="model")
    cluster, graph, run, before = design.cluster, design.model.graph, design.run, design.placement
    for problem in (*_of_cluster(cluster), *_of_model(graph), *_of_run(run, cluster)):
        raise InvalidInput(problem.message, field=problem.field)
    planned = _planned(cluster, promised)
    first = [task for task in planned if task.index < max(1, cluster.jobs[task.job] // run.replicas)]
    by_layer = _by_layer(before, graph)
    pinned = set(_by_layer(Placement(devices=dict.fromkeys(before.pinned, "")), graph).devices)
    placed = placing.place(
        graph,
        _devices(cluster, promised, first),
        batch_size=run.batch_size // run.replicas,
        microbatches=run.microbatches,
        pinned={layer: device for layer, device in by_layer.devices.items() if layer in pinned},
        splits={layer: devices for layer, devices in by_layer.splits.items() if layer in pinned},
        calibration=design.calibration,
    )
    return Placement(
        devices=placed.devices,
        splits=placed.splits,
        pinned=[layer for layer in placed.devices | placed.splits if layer in pinned],
    )


def request_of(design: Design, *, name: str = "", keep: bool = False, grace_s: float = 300.0) -> ClusterRequest:
    """The request that starts a design's cluster, under its own name or another.

    Raises InvalidInput for the first thing that is wrong with the cluster.
    """
    for problem in _of_cluster(design.cluster):
        raise InvalidInput(problem.message, field=problem.field)
    return ClusterRequest(
        name=name or design.cluster.name,
        kind=design.cluster.kind,
        jobs=design.cluster.jobs,
        options=design.cluster.options,
        hosts=design.cluster.hosts,
        tasks=design.cluster.tasks,
        keep=keep,
        grace_s=grace_s,
    )


def as_drawn(info: ClusterInfo) -> ClusterDesign:
    """A cluster that runs, as it would be drawn: its hosts with their devices, and each task where it is."""
    names = {host.name: host.drawn or host.name for host in info.hosts}
    tasks = []
    for seat in info.tasks:
        job, _, index = seat.task.rpartition(":")
        device = f"GPU:{seat.gpus[0]}" if seat.gpus else "CPU"
        tasks.append(
            TaskPlace(job=job, index=int(index), host=names[seat.host], device=device, memory_bytes=seat.memory_bytes)
        )
    hosts = [
        HostDesign(
            name=names[host.name],
            cpus=max(1, host.threads),
            memory_bytes=host.memory_bytes,
            gpus=[gpu.memory_bytes for gpu in host.gpus],
        )
        for host in info.hosts
    ]
    return ClusterDesign(name=info.name, kind=info.kind, jobs=dict(info.jobs), hosts=hosts, tasks=tasks)


# -- devices -------------------------------------------------------------------------------------------------------


def devices(cluster: ClusterDesign, promised: Sequence[HostDesign] = ()) -> list[Device]:
    """The devices of a cluster that layers may be on, with the memory that there is for each."""
    return _devices(cluster, promised, _planned(cluster, promised))


def _planned(cluster: ClusterDesign, promised: Sequence[HostDesign]) -> list[PlannedTask]:
    hosts = cluster.hosts or promised or [HostDesign(name="")]
    return plan(cluster.jobs, promised_slots(hosts), drawing=Drawing(cluster.hosts, cluster.tasks))


def _main_device(task: PlannedTask) -> str:
    """Its first GPU, or its CPU."""
    return task.devices[1] if task.gpus.gpus else task.devices[0]


def _devices(cluster: ClusterDesign, promised: Sequence[HostDesign], planned: Sequence[PlannedTask]) -> list[Device]:
    """The devices that layers may be on, with the memory that each task has: its cap, or its part of what is left."""
    hosts = {host.name: host for host in cluster.hosts or promised}
    caps = {place.task: place.memory_bytes for place in cluster.tasks if place.memory_bytes}
    together: dict[tuple[str, int | None], list[str]] = {}
    for task in planned:
        together.setdefault(_seat(task), []).append(task.task)
    found = []
    for task in planned:
        if task.job in CPU_JOBS:
            continue
        name, gpu = _seat(task)
        host = hosts.get(name)
        there = 0 if host is None else host.memory_bytes if gpu is None else host.gpus[gpu]
        others = together[name, gpu]
        left = there - sum(caps.get(other, 0) for other in others)
        share = max(1, left // max(1, sum(other not in caps for other in others))) if there else 0
        found.append(
            Device(
                name=_main_device(task),
                flops_per_s=CPU_FLOPS_PER_S if gpu is None else GPU_FLOPS_PER_S,
                memory_bytes=caps.get(task.task, share),
            )
        )
    return found


def _others(placement: Placement, known: Sequence[Device]) -> list[Device]:
    """Devices that layers are on beside those where tasks compute: a task's CPU next to its GPU, a GPU nobody knows."""
    names = {device.name for device in known}
    tasks = {name.rpartition("/device:")[0] for name in names}
    used = [*placement.devices.values(), *(name for devices in placement.splits.values() for name in devices)]
    return [
        Device(name=name, flops_per_s=CPU_FLOPS_PER_S if name.endswith("CPU:0") else GPU_FLOPS_PER_S)
        for name in dict.fromkeys(used)
        if name not in names and _DEVICE.match(name) and name.rpartition("/device:")[0] in tasks
    ]


def _seat(task: PlannedTask) -> tuple[str, int | None]:
    """The host of a task, and the number of the GPU there that it computes on."""
    gpus = task.seat.gpus
    return task.host.name, gpus[0] if gpus else None


def _by_layer(placement: Placement, graph: LayerGraph) -> Placement:
    """The same with a container's place given to each of its layers; the nearest place counts."""
    devices, splits = {}, {}
    for layer in graph.layers:
        path = layer.id
        while path and path not in placement.splits and path not in placement.devices:
            path = path.rpartition("/")[0]
        if path in placement.splits:
            splits[layer.id] = placement.splits[path]
        elif path in placement.devices:
            devices[layer.id] = placement.devices[path]
    return Placement(devices=devices, splits=splits)


# -- what is wrong -------------------------------------------------------------------------------------------------


def _error(field: str, message: str) -> DesignProblem:
    return DesignProblem(field=field, message=message)


def _warning(field: str, message: str) -> DesignProblem:
    return DesignProblem(field=field, message=message, level="warning")


def _of_cluster(cluster: ClusterDesign) -> Iterator[DesignProblem]:
    """Errors only: a cluster without them can be planned."""
    try:
        if cluster.name:
            check_name(cluster.name)
        check_jobs(cluster.jobs)
    except InvalidInput as error:
        yield _error(f"cluster.{error.field}", str(error))
        return
    for wrong in wrong_places(cluster.jobs, cluster.hosts, cluster.tasks):
        yield _error(f"cluster.{wrong.field}", str(wrong))


def _sharing(cluster: ClusterDesign) -> Iterator[DesignProblem]:
    """Tasks that are put on one device."""
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
                    f"The caps of {tasks} are at most what {device} of {name} has, {there} bytes. Received: {caps}",
                )
        elif gpu is not None and len(places) > 1:
            for number in numbers:
                if not cluster.tasks[number].memory_bytes:
                    yield _warning(
                        f"cluster.tasks[{number}].memory_bytes",
                        f"{tasks} share {device} of {name}: without a cap {cluster.tasks[number].task} may take all",
                    )


def _of_model(graph: LayerGraph) -> Iterator[DesignProblem]:
    """Errors only: a graph without them can be computed with."""
    seen: set[str] = set()
    for number, layer in enumerate(graph.layers):
        where = f"model.graph.layers[{number}]"
        if not layer.id or layer.id in seen:
            yield _error(f"{where}.id", f"A layer has an id of its own. Received: {layer.id!r:.100}")
        seen.add(layer.id)
        for field in _COUNTS:
            if not 0 <= getattr(layer, field) <= MAX_WHOLE:
                yield _error(f"{where}.{field}", f"{field} is from 0 to {MAX_WHOLE}. Received: {getattr(layer, field)}")
    loose = False
    for number, edge in enumerate(graph.edges):
        where = f"model.graph.edges[{number}]"
        for field, layer_id in (("source", edge.source), ("target", edge.target)):
            if layer_id not in seen:
                loose = True
                yield _error(f"{where}.{field}", f"An edge goes between layers. Received: {layer_id!r:.100}")
        if not 0 <= edge.bytes <= MAX_WHOLE:
            yield _error(f"{where}.bytes", f"bytes is from 0 to {MAX_WHOLE}. Received: {edge.bytes}")
    if not loose and len(seen) == len(graph.layers):
        try:
            ordered(graph)
        except InvalidInput as error:
            yield _error("model.graph.edges", str(error))


_COUNTS = [field for field, hint in Layer.__annotations__.items() if hint == "int"]


def _of_run(run: RunSettings, cluster: ClusterDesign) -> Iterator[DesignProblem]:
    """Errors only."""
    tasks = sum(count for job, count in cluster.jobs.items() if job not in CPU_JOBS)
    if not 1 <= run.batch_size <= MAX_WHOLE:
        yield _error("run.batch_size", f"batch_size is a whole number from 1. Received: {run.batch_size}")
    elif not 1 <= run.replicas <= min(run.batch_size, max(1, tasks)):
        yield _error(
            "run.replicas", f"replicas is from 1 to the number of tasks that compute, {tasks}. Received: {run.replicas}"
        )
    elif not 1 <= run.microbatches <= min(MAX_MICROBATCHES, run.batch_size // run.replicas):
        yield _error(
            "run.microbatches",
            f"microbatches is from 1 to {MAX_MICROBATCHES}, and at most the {run.batch_size // run.replicas} examples "
            f"that a replica gets of a batch. Received: {run.microbatches}",
        )
    if run.epochs < 1:
        yield _error("run.epochs", f"epochs is a whole number from 1. Received: {run.epochs}")


def _of_placement(design: Design, planned: Sequence[PlannedTask], *, knows_hosts: bool) -> Iterator[DesignProblem]:
    placement, graph = design.placement, design.model.graph if design.model else None
    kinds = {layer.id: layer.kind for layer in graph.layers} if graph else {}
    containers = {path[:end] for path in kinds for end, letter in enumerate(path) if letter == "/"}
    places = {task.task: task for task in planned}
    for layer, device in placement.devices.items():
        where = f"placement.devices.{layer}"
        if layer not in kinds and layer not in containers:
            yield _error(where, f"A layer of the model is placed. Received: {layer!r:.100}, which it has not got")
        if wrong := _wrong_device(device, places, knows_hosts):
            yield _error(where, wrong)
    for layer, devices in placement.splits.items():
        where = f"placement.splits.{layer}"
        if layer not in kinds:
            yield _error(where, f"A layer of the model is split. Received: {layer!r:.100}, which it has not got")
        elif kinds[layer] not in SPLITTABLE:
            yield _error(where, f"A layer that is split is a {' or '.join(SPLITTABLE)}. Received: a {kinds[layer]}")
        if len(devices) < 2 or len(set(devices)) < len(devices):
            yield _error(where, f"A layer is split over two devices or more, each once. Received: {devices}")
        if layer in placement.devices:
            yield _error(where, f"A layer is placed or split. Received: both for {layer}")
        for device in devices:
            if wrong := _wrong_device(device, places, knows_hosts):
                yield _error(where, wrong)
    for number, layer in enumerate(placement.pinned):
        if layer not in placement.devices and layer not in placement.splits:
            yield _warning(f"placement.pinned[{number}]", f"{layer} is pinned and has no place")
    yield from _idle(design, planned)


def _wrong_device(device: str, places: dict[str, PlannedTask], knows_hosts: bool) -> str:
    match = _DEVICE.match(device)
    if match is None:
        return f"A device is as /job:worker/task:1/device:CPU:0. Received: {device!r:.100}"
    task = places.get(f"{match['job']}:{int(match['index'])}")
    if task is None or task.job in CPU_JOBS:
        named = [name for name, there in places.items() if there.job not in CPU_JOBS]
        return f"Layers are on the tasks {_few(named)}. Received: {device}"
    if knows_hosts and device not in task.devices:
        return f"The devices of {task.task} are {', '.join(task.devices)}. Received: {device}"
    return ""


def _idle(design: Design, planned: Sequence[PlannedTask]) -> Iterator[DesignProblem]:
    """Tasks that compute nothing, where layers are placed."""
    placement = design.placement
    used = {*placement.devices.values(), *(device for devices in placement.splits.values() for device in devices)}
    busy = {device.rpartition("/device:")[0] for device in used}
    if not busy or design.run.replicas > 1:
        return
    chips = {place.task: number for number, place in enumerate(design.cluster.tasks)}
    for task in planned:
        if task.job not in CPU_JOBS and f"/job:{task.job}/task:{task.index}" not in busy:
            field = f"cluster.tasks[{chips[task.task]}]" if task.task in chips else f"cluster.jobs.{task.job}"
            yield _warning(field, f"{task.task} has no layer")


def _of_calibration(calibration: Calibration | None, graph: LayerGraph | None) -> Iterator[DesignProblem]:
    if calibration is None or graph is None:
        return
    missing = [layer.id for layer in graph.layers if layer.flops and layer.id not in calibration.layer_seconds]
    if missing:
        yield _warning("calibration", f"It was measured with another model: it lacks {_few(missing)}")


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"
