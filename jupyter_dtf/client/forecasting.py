"""Forecasts how training scales with the number of tasks (``predict``), and plans machines for a target (``plan``)."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ..backend.planning import check_design, design_forecast, forecast, scale_plan
from ..errors import InvalidInput
from ..schema.checkup import PairSpeed
from ..schema.design import SUFFIX, Design, ModelDesign, RunSettings
from ..schema.forecast import Forecast
from ..schema.graph import LayerGraph
from ..schema.placement import Calibration, Device, Link
from ..schema.scale_plan import ScalePlan, ScaleTarget
from ..schema.strategy import ParameterServer
from .forecast_settings import settings_of

if TYPE_CHECKING:
    from .cluster import Cluster

MEASURED = "measured"
"""The value of ``network`` that requests a measurement of the network between a cluster's hosts."""


def forecast_of(
    model: Any,
    machines: Cluster | Design | Sequence[Device] | None,
    *,
    strategy: Any = "allreduce",
    tasks: int | Sequence[int] | None = None,
    calibration: Calibration | None = None,
    batch_size: int = 0,
    **settings: Any,
) -> Forecast:
    """Return the forecast that ``predict`` makes for several numbers of tasks. Takes the same arguments."""
    wanted = settings_of(strategy, tasks, batch_size=batch_size, **settings)
    design, graph = _model(model)
    known = _machines(machines if machines is not None else design, calibration)
    if wanted.network == MEASURED:
        wanted = msgspec.structs.replace(wanted, network="", link=measured_link(machines))
    calibration = calibration or (design.calibration if design is not None else None)
    return forecast.forecast(graph, wanted, known, calibration)


def plan(
    model: Any,
    machines: Cluster | Design | Sequence[Device] | None = None,
    *,
    examples_per_second: float = 0.0,
    hours: float = 0.0,
    device_hours: float = 0.0,
    examples: float = 0.0,
    strategies: Sequence[Any] = (),
    calibration: Calibration | None = None,
    **settings: Any,
) -> ScalePlan:
    """Find the fewest machines, and the strategy, with which training reaches a target.

    The target is exactly one of ``examples_per_second``, ``hours`` and ``device_hours``.

    Args:
        model: See ``predict``.
        machines: A cluster or a design. See ``predict``.
        examples_per_second: The target speed.
        hours: The time in which to train on ``examples``, in hours.
        device_hours: A budget: find the fastest way to train on ``examples`` within this many device hours.
        examples: The number of examples over all epochs. Required with ``hours`` and ``device_hours``.
        strategies: The strategies that may be used. By default all-reduce, synchronous parameter servers and a
            pipeline.
        calibration: See ``predict``.
        **settings: Keyword arguments of ``predict``, such as ``device``, ``network`` and ``per_device``.

    Returns:
        The plan. Its ``design``, which can be saved, is None if the target cannot be reached.

    Raises:
        InvalidInput: If an argument is invalid.

    Example:
        >>> dtf.plan(model, examples_per_second=10_000, device="A100").design.save("large.dtf")
    """
    target = ScaleTarget(
        examples_per_second=examples_per_second, hours=hours, device_hours=device_hours, examples=examples
    )
    if settings.get("network") == MEASURED:
        settings = {**settings, "network": "", "link": measured_link(machines)}
    design, graph = _model(model)
    chosen = strategies or ("allreduce", ParameterServer(sync=True), "pipeline")
    design = _design(design, graph, machines, calibration)
    return scale_plan.plan(design, target, [settings_of(each, None, **settings) for each in chosen])


def measured_link(machines: Any) -> Link:
    """Measure the network between a cluster's hosts: the median bandwidth, and half the median round-trip time.

    Raises InvalidInput.
    """
    from .cluster import Cluster
    from .session import session

    if not isinstance(machines, Cluster):
        raise InvalidInput(
            f"`machines` must be a cluster for network={MEASURED!r}, which is measured between its hosts, got "
            f"{machines!r:.100}",
            field="network",
        )
    name = machines.wait_ready().name
    return link_of(session().call(lambda fleet: fleet.checkup(name, network=True)).network)


def link_of(pairs: Sequence[PairSpeed]) -> Link:
    """Combine measurements between pairs of hosts into one link. Raises InvalidInput if there are none."""
    if not pairs:
        raise InvalidInput(
            f"The cluster must have at least two hosts for network={MEASURED!r}, got one", field="network"
        )
    return Link(
        bytes_per_s=statistics.median(pair.bytes_per_second for pair in pairs),
        latency_s=statistics.median(pair.latency_seconds for pair in pairs) / 2,
    )


def _model(model: Any) -> tuple[Design | None, LayerGraph]:
    """Return the design that the model comes from (None if it is not from a design), and the layers."""
    if isinstance(model, (str, os.PathLike)) and os.fspath(model).endswith(SUFFIX):
        model = Design.open(model)
    if isinstance(model, Design):
        return model, design_forecast.model_of(model)
    if isinstance(model, LayerGraph):
        return None, model
    from ..backend.task.describe.layer_graph import describe

    return None, describe(model, None)


def _machines(machines: Any, calibration: Calibration | None) -> forecast.Machines:
    if machines is None:
        return forecast.Machines()
    if isinstance(machines, Design):
        return design_forecast.machines_of(machines)
    if isinstance(machines, Sequence):
        return _of_devices(machines)
    return design_forecast.of_cluster(check_design.as_drawn(machines.wait_ready().info))


def _of_devices(devices: Sequence[Device]) -> forecast.Machines:
    if not devices or not all(isinstance(device, Device) for device in devices):
        raise InvalidInput(f"`machines` must be one or more Device structs, got {devices!r:.100}", field="machines")
    limits = [device.memory_bytes for device in devices if device.memory_bytes]
    return forecast.Machines(
        tasks=len(devices),
        on_cpu=all("GPU" not in device.name for device in devices),
        flops_per_s=min(device.flops_per_s for device in devices),
        memory_bytes=min(limits, default=0),
    )


def _design(design: Design | None, graph: LayerGraph, machines: Any, calibration: Calibration | None) -> Design:
    """Return the design that a plan starts from: the caller's design, with the caller's cluster."""
    if isinstance(machines, Sequence):
        raise InvalidInput(
            f"`machines` must be a cluster or a design for a plan, got {machines!r:.100}", field="machines"
        )
    found = machines if isinstance(machines, Design) else design or Design()
    cluster = found.cluster
    if machines is not None and not isinstance(machines, Design):
        cluster = check_design.as_drawn(machines.wait_ready().info)
    run = found.run if design is not None or isinstance(machines, Design) else RunSettings(microbatches=8)
    return msgspec.structs.replace(
        found,
        cluster=cluster,
        model=ModelDesign(graph=graph) if found.model is None else found.model,
        run=run,
        calibration=calibration or found.calibration,
    )
