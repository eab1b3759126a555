"""Checks a design, and reports the cluster that it describes, the predicted step and any problems. Pure.

An inconsistent design can still be opened and saved: each inconsistency is reported as a problem with the path of its
field, and is shown at that field.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ...errors import InvalidInput
from ...schema.api import ClusterInfo
from ...schema.cluster import CPU_JOBS
from ...schema.cluster_request import ClusterRequest
from ...schema.design import ClusterDesign, Design, DesignReport
from ...schema.graph import LayerGraph, containers_of
from ...schema.hosts import HostDesign, TaskPlace
from ...schema.origin import Source
from ...schema.placement import Device, Placement, Prediction
from . import design_problems
from . import place_layers as placing
from .launch_plan import HostLayout, PlannedTask, expected_slots, main_device, plan, tf_configs
from .prediction import predict
from .unused_devices import why_unused, with_reasons

CPU_FLOPS_PER_S = 1e10
"""The assumed speed of a CPU that has not been measured: about one core."""
GPU_FLOPS_PER_S = 1e13


# -- checking a design ---------------------------------------------------------------------------------------------


def check(design: Design, expected_hosts: Sequence[HostDesign] = ()) -> DesignReport:
    """Return the report on a design.

    ``expected_hosts``: the hosts that the design's kind of cluster will have, used if the design defines no hosts.
    """
    cluster, graph = design.cluster, design.model.graph if design.model else None
    wrong_cluster = list(design_problems.of_cluster(cluster))
    planned = [] if wrong_cluster else _planned(cluster, expected_hosts)
    wrong_model = list(design_problems.of_model(graph)) if graph else []
    wrong_run = list(design_problems.of_run(design.run, cluster))
    is_placed = bool(design.placement.devices or design.placement.splits)
    prediction = None
    if graph and planned and is_placed and not wrong_model and not wrong_run:
        prediction = _predicted(design, graph, expected_hosts, planned)
    looked = design_problems.Looked(design, planned, bool(cluster.hosts or expected_hosts), prediction)
    spec, tf_config = tf_configs(cluster.jobs) if planned else ({}, {})
    return DesignReport(
        cluster_spec=spec,
        tf_config=tf_config,
        devices={task.task: main_device(task) for task in planned},
        problems=[
            *wrong_cluster,
            *wrong_model,
            *wrong_run,
            *itertools.chain.from_iterable(look(looked) for look in design_problems.LOOKS),
        ],
        prediction=prediction,
    )


def _predicted(
    design: Design, graph: LayerGraph, expected_hosts: Sequence[HostDesign], planned: Sequence[PlannedTask]
) -> Prediction:
    """Predict a step of the design as it is, and add the reason why each unused device has no layers."""
    devices = _devices(design.cluster, expected_hosts, planned)
    others = _others(design.placement, devices)
    run, by_layer = design.run, _by_layer(design.placement, graph)
    sizes: dict[str, Any] = {
        "batch_size": run.batch_size,
        "microbatches": run.microbatches,
        "replicas": run.replicas,
        "calibration": design.calibration,
    }
    found = predict(graph, by_layer, [*devices, *others], **sizes)
    first = _devices(design.cluster, expected_hosts, _of_first_replica(design, planned))
    return with_reasons(found, why_unused(graph, by_layer, [*first, *others], **sizes))


def _of_first_replica(design: Design, planned: Sequence[PlannedTask]) -> list[PlannedTask]:
    jobs, replicas = design.cluster.jobs, design.run.replicas
    return [task for task in planned if task.index < max(1, jobs[task.job] // replicas)]


def place(design: Design, expected_hosts: Sequence[HostDesign] = ()) -> Placement:
    """Place a design's model automatically, keeping pinned layers on their devices.

    Raises InvalidInput for a design without a model or with errors, and if the layers do not fit.
    """
    if design.model is None or not design.model.graph.layers:
        raise InvalidInput("A design needs a model before its layers can be placed", field="model")
    cluster, graph, run, before = design.cluster, design.model.graph, design.run, design.placement
    wrong = (design_problems.of_cluster(cluster), design_problems.of_model(graph), design_problems.of_run(run, cluster))
    for problem in itertools.chain(*wrong):
        raise InvalidInput(problem.message, field=problem.field)
    planned = _planned(cluster, expected_hosts)
    first = _devices(cluster, expected_hosts, _of_first_replica(design, planned))
    by_layer = _by_layer(before, graph)
    pinned = set(by_layer.pinned)
    placed = placing.place(
        graph,
        first,
        batch_size=run.batch_size,
        microbatches=run.microbatches,
        replicas=run.replicas,
        pinned={layer: device for layer, device in by_layer.devices.items() if layer in pinned},
        splits={layer: devices for layer, devices in by_layer.splits.items() if layer in pinned},
        calibration=design.calibration,
        current=by_layer,
        beside=_others(by_layer, first),
    )
    return Placement(
        devices=placed.devices,
        splits=placed.splits,
        pinned=[layer for layer in placed.devices | placed.splits if layer in pinned],
    )


def request_of(design: Design, *, name: str = "", **own: Any) -> ClusterRequest:
    """Return the request that starts a design's cluster. ``name``: the cluster's name, by default the design's.

    ``own`` sets fields of the request that a design does not contain. Raises InvalidInput for the cluster's first
    error.
    """
    for problem in design_problems.of_cluster(design.cluster):
        raise InvalidInput(problem.message, field=problem.field)
    return ClusterRequest(
        name=name or design.cluster.name,
        kind=design.cluster.kind,
        jobs=design.cluster.jobs,
        options=design.cluster.options,
        hosts=design.cluster.hosts,
        tasks=design.cluster.tasks,
        **own,
    )


def as_drawn(info: ClusterInfo) -> ClusterDesign:
    """Return a running cluster as a design: the hosts with their devices, and each task on the host that runs it."""
    names = {host.name: host.drawn or host.name for host in info.hosts}
    tasks = []
    for location in info.tasks:
        job, _, index = location.task.rpartition(":")
        device = f"GPU:{location.gpus[0]}" if location.gpus else "CPU"
        tasks.append(
            TaskPlace(
                job=job, index=int(index), host=names[location.host], device=device, memory_bytes=location.memory_bytes
            )
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


def drawn(request: ClusterRequest) -> Source | None:
    """Return the design that a cluster was started from, to be recorded in its runs.

    Return None if the design has neither hosts nor tasks. The options are omitted: they may contain credentials, and
    are not needed to see what ran where.
    """
    if not request.hosts and not request.tasks:
        return None
    cluster = ClusterDesign(
        name=request.name, kind=request.kind, jobs=request.jobs, hosts=request.hosts, tasks=request.tasks
    )
    return Source(name=request.name, text=Design(cluster=cluster).text())


# -- devices -------------------------------------------------------------------------------------------------------


def devices(cluster: ClusterDesign, expected_hosts: Sequence[HostDesign] = ()) -> list[Device]:
    """Return the devices of a cluster that layers may be placed on, with the memory available on each."""
    return _devices(cluster, expected_hosts, _planned(cluster, expected_hosts))


def hosts_of_tasks(cluster: ClusterDesign, expected_hosts: Sequence[HostDesign] = ()) -> list[str]:
    """Return the name of each compute task's host, in rank order."""
    return [task.host.name for task in _planned(cluster, expected_hosts) if task.job not in CPU_JOBS]


def _planned(cluster: ClusterDesign, expected_hosts: Sequence[HostDesign]) -> list[PlannedTask]:
    hosts = cluster.hosts or expected_hosts or [HostDesign(name="")]
    return plan(cluster.jobs, expected_slots(hosts), layout=HostLayout(cluster.hosts, cluster.tasks))


def _devices(
    cluster: ClusterDesign, expected_hosts: Sequence[HostDesign], planned: Sequence[PlannedTask]
) -> list[Device]:
    """Return the devices for layers. A task's memory is its cap or, without one, its share of the remaining memory."""
    hosts = {host.name: host for host in cluster.hosts or expected_hosts}
    caps = {place.task: place.memory_bytes for place in cluster.tasks if place.memory_bytes}
    together: dict[tuple[str, int | None], list[str]] = {}
    for task in planned:
        together.setdefault(_host_and_gpu(task), []).append(task.task)
    found = []
    for task in planned:
        if task.job in CPU_JOBS:
            continue
        name, gpu = _host_and_gpu(task)
        host = hosts.get(name)
        there = 0 if host is None else host.memory_bytes if gpu is None else host.gpus[gpu]
        others = together[name, gpu]
        left = there - sum(caps.get(other, 0) for other in others)
        share = max(1, left // max(1, sum(other not in caps for other in others))) if there else 0
        found.append(
            Device(
                name=main_device(task),
                flops_per_s=CPU_FLOPS_PER_S if gpu is None else GPU_FLOPS_PER_S,
                memory_bytes=caps.get(task.task, share),
            )
        )
    return found


def _others(placement: Placement, known: Sequence[Device]) -> list[Device]:
    """Return the other devices that a placement uses: the CPU of a task with a GPU, or a GPU that is not known."""
    names = {device.name for device in known}
    tasks = {name.rpartition("/device:")[0] for name in names}
    used = [*placement.devices.values(), *(name for devices in placement.splits.values() for name in devices)]
    return [
        Device(name=name, flops_per_s=CPU_FLOPS_PER_S if name.endswith("CPU:0") else GPU_FLOPS_PER_S)
        for name in dict.fromkeys(used)
        if name not in names and design_problems.DEVICE.match(name) and name.rpartition("/device:")[0] in tasks
    ]


def _host_and_gpu(task: PlannedTask) -> tuple[str, int | None]:
    """Return the host of a task, and the index of the GPU that it computes on (None: CPU)."""
    gpus = task.location.gpus
    return task.host.name, gpus[0] if gpus else None


def _by_layer(placement: Placement, graph: LayerGraph) -> Placement:
    """Return the placement of the individual layers, without containers.

    A container's device applies to all layers in it. If a layer is in several placed containers, the innermost one
    applies.
    """
    devices, splits, pinned = {}, {}, []
    chosen = set(placement.pinned)
    for layer in graph.layers:
        if not chosen.isdisjoint((layer.id, *containers_of(layer.id))):
            pinned.append(layer.id)
        name = placement.placed_as(layer.id)
        if name in placement.splits:
            splits[layer.id] = placement.splits[name]
        elif name:
            devices[layer.id] = placement.devices[name]
    return Placement(devices=devices, splits=splits, pinned=pinned)
