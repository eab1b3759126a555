"""A model's layer graph, its placement and its cost: ``describe``, ``place``, ``predict`` and ``calibrate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import msgspec

from ..backend.planning import calibration, check_design, costs, place_layers, prediction
from ..backend.planning.unused_devices import why_unused, with_reasons
from ..backend.task import profile
from ..backend.task.model import keras_io
from ..errors import InvalidInput
from ..schema.design import Design
from ..schema.forecast import Forecast
from ..schema.graph import LayerGraph, containers_of
from ..schema.placement import Calibration, Device, Link, Placement, Prediction
from ..schema.run_options import RunOptions
from ..schema.strategy import FILL_DRAIN, SCHEDULES, Pipeline
from . import forecasting
from .run import Run
from .submitting import request_of, submit
from .waiting import show_until_end

if TYPE_CHECKING:
    from .cluster import Cluster


def describe(model: Any, input_shapes: Any = None) -> LayerGraph:
    """Describe a Keras model as a graph of layers with their shapes, parameters, memory (bytes) and FLOPs.

    The model may be sequential, functional or subclassed; it only needs to be callable.

    Args:
        model: The model.
        input_shapes: The shapes of the inputs, batch dimension first. Required for a model that is not built or has
            dimensions of unknown size.

    Returns:
        The graph. Sizes are for one example unless stated otherwise.

    Raises:
        InvalidInput: If the model cannot be called with such inputs.

    Example:
        >>> graph = dtf.describe(model)
        >>> [(layer.id, layer.parameters) for layer in graph.layers]
    """
    from ..backend.task.describe.layer_graph import describe

    return describe(model, input_shapes)


def place(
    model: Any,
    devices: Cluster | Sequence[Device],
    *,
    batch_size: int = 64,
    microbatches: int = 8,
    pinned: Mapping[str, str] | None = None,
    splits: Mapping[str, Sequence[str]] | None = None,
    link: Link | None = None,
    calibration: Calibration | None = None,
    current: Placement | None = None,
) -> Placement:
    """Place a model's layers on devices so that a training step of ``dtf.Pipeline`` is predicted to be fastest.

    ``dtf.predict`` explains why a device was given no layers.

    Args:
        model: A Keras model, or the graph that ``dtf.describe`` returned.
        devices: A cluster, or a list of ``Device``. Without a calibration, the devices of a cluster are assumed to be
            equally fast and to send 1 GB/s.
        batch_size: Examples per step.
        microbatches: The number of microbatches that a step is divided into.
        pinned: The device on which a layer must be placed, keyed by layer.
        splits: The devices over which the columns of a layer are split, keyed by layer.
        link: The bandwidth and latency between devices.
        calibration: The measurements that ``dtf.calibrate`` made on the real devices.
        current: A placement of your own, which is kept unless a faster one is found. ``pinned`` applies to it too.

    Returns:
        The placement.

    Raises:
        InvalidInput: If an argument is invalid, or the layers do not fit into the devices' memory.

    Example:
        >>> placement = dtf.place(model, cluster, batch_size=64, microbatches=8)
        >>> cluster.fit(model, x, y, strategy=dtf.Pipeline(placement, microbatches=8))
    """
    return place_layers.place(
        _graph(model),
        _devices(devices),
        batch_size=batch_size,
        microbatches=microbatches,
        pinned=pinned,
        splits=splits,
        link=link,
        calibration=calibration,
        current=current,
    )


@overload
def predict(
    model: Any,
    placement: Placement | Mapping[str, str],
    devices: Cluster | Sequence[Device],
    *,
    batch_size: int = 64,
    microbatches: int = 8,
    replicas: int = 1,
    schedule: str = FILL_DRAIN,
    link: Link | None = None,
    calibration: Calibration | None = None,
) -> Prediction: ...


@overload
def predict(
    model: Any,
    placement: Cluster | Design | Sequence[Device] | None = None,
    *,
    machines: Cluster | Design | Sequence[Device] | None = None,
    strategy: Any = "allreduce",
    tasks: int | Sequence[int] | None = None,
    calibration: Calibration | None = None,
    batch_size: int = 0,
    **settings: Any,
) -> Forecast: ...


def predict(
    model: Any, placement: Any = None, devices: Any = None, *, machines: Any = None, **options: Any
) -> Prediction | Forecast:
    """Predict the cost of a training step: in detail for one placement, or as it scales with the number of tasks.

    ``predict(model, placement, devices)`` predicts a step of ``dtf.Pipeline`` with this placement: time (seconds),
    memory and traffic (bytes) per device. Without a calibration, times are only meaningful relative to each other.

    ``predict(model, machines, strategy="allreduce", tasks=[1, 2, 4, ...])`` forecasts how training scales: examples per
    second with a range, the parts of a step, memory per device, efficiency, and the number of tasks beyond which more
    tasks are not worthwhile.

    Args:
        model: A Keras model, or the graph that ``dtf.describe`` returned. For a forecast also a ``dtf.Design`` or the
            path of one.
        placement: A ``dtf.Placement``, or a device for each layer. Anything else is used as ``machines``.
        devices: See ``place``. Only with a placement.
        machines: A cluster, a design or devices. Without these and ``device``, one core of 10 GFLOP/s is assumed.
        **options: With a placement: ``batch_size`` (64), ``microbatches`` (8), ``replicas``, ``schedule`` (see
            ``dtf.Pipeline``), ``link`` and ``calibration``. For a forecast: ``strategy`` as in ``cluster.fit`` or
            ``"pipeline"``, ``tasks``, either ``batch_size`` (examples per step of all tasks) or ``per_device``, and the
            fields of ``ForecastSettings``: ``device="A100"``, ``precision="tf32"``, ``utilization``,
            ``network="25gbit"`` (or ``"measured"``, of a cluster), ``transport="rdma"``, ``local="nvlink3"``,
            ``devices_per_machine``, ``algorithm``, ``servers``, ``stages``, ``input_examples_per_s``, ``straggling``,
            ``threshold``.

    Returns:
        A ``Prediction``, whose ``problems`` list layers without a device and devices without enough memory; or a
        ``Forecast``.

    Raises:
        InvalidInput: If a layer, a device or a setting does not exist or is out of range.

    Example:
        >>> dtf.predict(model, placement, cluster).show()
        >>> dtf.predict(model, device="A100", network="25gbit", per_device=64)
    """
    if isinstance(placement, (Placement, Mapping)):
        return _predict_placed(model, placement, devices, **options)
    if devices is not None:
        raise InvalidInput(
            f"`placement` must be a Placement or map layers to devices, got {placement!r:.100}", field="placement"
        )
    return forecasting.forecast_of(model, placement if machines is None else machines, **options)


def _predict_placed(
    model: Any,
    placement: Placement | Mapping[str, str],
    devices: Cluster | Sequence[Device],
    *,
    batch_size: int = 64,
    microbatches: int = 8,
    replicas: int = 1,
    schedule: str = FILL_DRAIN,
    link: Link | None = None,
    calibration: Calibration | None = None,
) -> Prediction:
    graph, there = _in_turn(model, schedule), _devices(devices)
    if not isinstance(placement, Placement):
        placement = Placement(devices=dict(placement))
    places = {layer: [device] for layer, device in placement.devices.items()} | placement.splits
    ids = {layer.id for layer in graph.layers}
    containers = {container for layer in ids for container in containers_of(layer)}
    costs.check_places(ids | containers, there, places, "placement")
    sizes: dict[str, Any] = {
        "batch_size": batch_size,
        "microbatches": microbatches,
        "replicas": replicas,
        "link": link,
        "calibration": calibration,
    }
    found = prediction.predict(graph, placement, there, **sizes)
    return found if replicas > 1 else with_reasons(found, why_unused(graph, placement, there, **sizes))


def _in_turn(model: Any, schedule: str) -> LayerGraph:
    """Return the graph of a model. Its passes alternate if the schedule requires this and the loss allows it."""
    if schedule not in SCHEDULES:
        raise InvalidInput(f"`schedule` must be one of {', '.join(SCHEDULES)}, got {schedule!r:.100}", field="schedule")
    if schedule == FILL_DRAIN:
        return _graph(model)
    if isinstance(model, LayerGraph):
        return msgspec.structs.replace(model, takes_turns=True)
    from ..backend.task.fit.pipeline.loss_by_parts import takes_turns

    return msgspec.structs.replace(_graph(model), takes_turns=takes_turns(model))


def calibrate(
    model: Any,
    cluster: Cluster,
    *,
    batch_size: int = 64,
    microbatches: int = 8,
    input_shapes: Any = None,
    threads_per_task: int = 0,
) -> Calibration:
    """Measure a model's layers on a cluster's devices, and transfers between the devices, in a short run.

    Every task trains the whole model for a few steps, at the same time as the others, with the microbatches that
    ``dtf.Pipeline`` would use. Therefore the model must fit into the memory of each task. An interrupt stops the run.

    Args:
        model: A compiled Keras model, which is not changed.
        cluster: The cluster to measure.
        batch_size: Examples per step.
        microbatches: The number of microbatches that a step is divided into.
        input_shapes: See ``describe``.
        threads_per_task: Threads for TensorFlow in each task. 0 divides a host's threads among its tasks.

    Returns:
        The measured calibration, for ``place`` and ``predict``.

    Raises:
        InvalidInput: If an argument is invalid.
        RunFailed: With the traceback of the task that failed first.
    """
    run = start_profile(
        model, cluster, batch_size, microbatches, input_shapes=input_shapes, threads_per_task=threads_per_task
    )
    try:
        show_until_end(run)
    except BaseException:  # the caller no longer waits for the run
        run.stop()
        raise
    return calibration_of(run, batch_size, microbatches)


def start_profile(
    model: Any,
    cluster: Cluster,
    batch_size: int,
    microbatches: int,
    *,
    input_shapes: Any = None,
    threads_per_task: int = 0,
) -> Run:
    """Start and return the run that ``calibrate`` waits for."""
    costs.check_sizes(batch_size, microbatches)
    packed = keras_io.pack(model).without_state()
    job = profile.ProfileJob(packed, batch_size, microbatches, input_shapes)
    options = RunOptions(
        name=f"profile of {model.name}",
        jobs={name: count for name, count in cluster.jobs.items() if name in Pipeline.jobs},
        threads_per_task=threads_per_task,
    )
    return submit(cluster.name, request_of(options, kind="profile"), (profile.run, (job,), {}), Run)


def calibration_of(run: Run, batch_size: int, microbatches: int) -> Calibration:
    """Wait for a run of ``start_profile`` and return its measurements. Raises the same errors as ``Run.result``."""
    return calibration.calibration(run.result(), max(1, round(batch_size / microbatches)))


def _graph(model: Any) -> LayerGraph:
    return model if isinstance(model, LayerGraph) else describe(model)


def _devices(devices: Cluster | Sequence[Device]) -> Sequence[Device]:
    if isinstance(devices, Sequence):
        return devices
    return check_design.devices(check_design.as_drawn(devices.wait_placed()))
