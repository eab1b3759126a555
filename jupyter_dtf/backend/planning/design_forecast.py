"""Forecasts how a design would scale, and describes the machines of its cluster. Pure."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from ...errors import InvalidInput
from ...schema.cluster import CPU_JOBS
from ...schema.design import ClusterDesign, Design
from ...schema.forecast import Forecast, ForecastSettings
from ...schema.graph import LayerGraph
from ...schema.hosts import HostDesign
from . import check_design, design_problems
from .forecast import Machines, forecast


def forecasts(
    design: Design, settings: Sequence[ForecastSettings], expected_hosts: Sequence[HostDesign] = ()
) -> list[Forecast]:
    """Return the forecast for each of the settings, in order.

    ``expected_hosts``: the hosts of the design's kind of cluster, used if the design has none.

    Raises InvalidInput for a design without a model or with errors, and for unknown devices and networks.
    """
    graph, machines = model_of(design), machines_of(design, expected_hosts)
    found = []
    for number, each in enumerate(settings):
        try:
            found.append(forecast(graph, each, machines, design.calibration))
        except InvalidInput as error:
            raise InvalidInput(str(error), field=f"settings.{number}.{error.field}") from None
    return found


def model_of(design: Design) -> LayerGraph:
    """Return the layers of a design's model. Raises InvalidInput if the design has no model or has errors."""
    if design.model is None or not design.model.graph.layers:
        raise InvalidInput("A forecast needs a design with a model", field="model")
    graph = design.model.graph
    wrong = itertools.chain(
        design_problems.of_cluster(design.cluster),
        design_problems.of_model(graph),
        design_problems.of_run(design.run, design.cluster),
    )
    for problem in wrong:
        raise InvalidInput(problem.message, field=problem.field)
    return graph


def machines_of(design: Design, expected_hosts: Sequence[HostDesign] = ()) -> Machines:
    """Return the machines of a design's cluster, with the design's run settings."""
    found = of_cluster(design.cluster, expected_hosts)
    run = design.run
    return Machines(
        **{name: getattr(found, name) for name in ("tasks", "servers", "per_machine", "on_cpu", "flops_per_s")},
        memory_bytes=found.memory_bytes,
        batch_size=run.batch_size,
        microbatches=run.microbatches,
        replicas=run.replicas,
    )


def of_cluster(cluster: ClusterDesign, expected_hosts: Sequence[HostDesign] = ()) -> Machines:
    """Return the machines of a cluster: the number of tasks, the maximum on one machine, and the tasks' devices."""
    devices = check_design.devices(cluster, expected_hosts)
    hosts = Counter(check_design.hosts_of_tasks(cluster, expected_hosts))
    on_cpu = all(device.name.endswith("CPU:0") for device in devices)
    limits = [device.memory_bytes for device in devices if device.memory_bytes]
    return Machines(
        tasks=max(1, sum(count for job, count in cluster.jobs.items() if job not in CPU_JOBS)),
        servers=cluster.jobs.get("ps", 0),
        per_machine=max(hosts.values(), default=1) if cluster.hosts or expected_hosts else 1,
        on_cpu=on_cpu,
        flops_per_s=check_design.CPU_FLOPS_PER_S if on_cpu else check_design.GPU_FLOPS_PER_S,
        memory_bytes=min(limits, default=0),
    )
