"""``describe``, ``place``, ``predict``, ``calibrate``: a model's layers, where they would go, what that would take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

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
from ..schema.strategy import Pipeline
from . import forecasting
from .run import Run
from .submitting import request_of, submit
from .waiting import show_until_end

if TYPE_CHECKING:
    from .cluster import Cluster


def describe(model: Any, input_shapes: Any = None) -> LayerGraph:
    """The graph of a Keras model's layers: shapes, parameters, bytes, FLOPs; of any model that can be called.

    ``input_shapes``: for a model that is not built, or with dimensions that are not known: the shapes of its inputs,
    the batch first. Raises InvalidInput.
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
    """Put a model's layers on a cluster's devices such that a step is predicted to take least.

    ``model`` is a Keras model or what ``describe`` has made of it. ``pinned`` maps layers to the devices they stay on,
    ``splits`` layers to the devices that their columns are split over. Without a ``calibration`` the devices of a
    cluster are taken to be equally fast, and to send 1 GB/s; describe your own by ``Device`` and ``Link``. ``current``:
    a placement of your own, which is kept if none that is known is faster; ``pinned`` holds for it too. ``predict``
    says why a device has got nothing. Raises InvalidInput, also if the layers do not fit.
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
    """What a training step would take: of one placement in detail, or over numbers of tasks.

    ``predict(model, placement, devices)``: a step of ``dtf.Pipeline`` with this placement, with seconds, memory and
    traffic by device (a ``Prediction``). ``batch_size`` (64), ``microbatches`` (8), ``replicas``, ``link`` and
    ``calibration`` say how. Seconds are worth something only in comparison, unless there is a ``calibration``. Raises
    InvalidInput for layers and devices that are not there; what is missing or does not fit is in ``problems``.

    ``predict(model, machines, strategy="allreduce", tasks=[1, 2, 4, ...])``: how far a training scales, as a
    ``Forecast``: examples per second with a band, the parts of a step, memory, efficiency, and where it stops paying.
    ``model`` may be a ``dtf.Design`` or the path of one. ``machines``: a cluster, a design, devices; without them and
    without ``device``, one core that is taken to do 10 GFLOP/s. ``strategy`` is that of ``cluster.fit``, or
    ``"pipeline"``. Either ``batch_size`` (of a step of all tasks) or ``per_device`` is given. All fields of
    ``ForecastSettings`` may be: ``device="A100"``, ``precision="tf32"``, ``utilisation``, ``network="25gbit"`` (or
    ``"measured"``, of a cluster), ``transport="rdma"``, ``local="nvlink3"``, ``devices_per_machine``, ``algorithm``,
    ``servers``, ``stages``, ``input_examples_per_s``, ``straggling``, ``threshold``. Raises InvalidInput.
    """
    if isinstance(placement, (Placement, Mapping)):
        return _predict_placed(model, placement, devices, **options)
    if devices is not None:
        raise InvalidInput(
            f"placement is a Placement or maps layers to devices. Received: {placement!r:.100}", field="placement"
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
    link: Link | None = None,
    calibration: Calibration | None = None,
) -> Prediction:
    graph, there = _graph(model), _devices(devices)
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


def calibrate(
    model: Any,
    cluster: Cluster,
    *,
    batch_size: int = 64,
    microbatches: int = 8,
    input_shapes: Any = None,
    threads_per_task: int = 0,
) -> Calibration:
    """Measure a cluster's devices, a compiled Keras model's layers on them, and transfers, in a short run.

    Every task trains the whole model for some steps, all at once and as ``dtf.Pipeline`` would with these sizes, so it
    has to fit into one. ``model`` stays as it is. ``input_shapes`` as in ``describe``. Raises InvalidInput, and
    RunFailed with the failing task's traceback; an interrupt ends the run.
    """
    run = start_profile(
        model, cluster, batch_size, microbatches, input_shapes=input_shapes, threads_per_task=threads_per_task
    )
    try:
        show_until_end(run)
    except BaseException:  # nobody waits for it any more
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
    """Start the run of ``calibrate``."""
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
    """What a run that ``start_profile`` has started has measured. Waits for its end; raises as ``Run.result``."""
    return calibration.calibration(run.result(), max(1, round(batch_size / microbatches)))


def _graph(model: Any) -> LayerGraph:
    return model if isinstance(model, LayerGraph) else describe(model)


def _devices(devices: Cluster | Sequence[Device]) -> Sequence[Device]:
    if isinstance(devices, Sequence):
        return devices
    return check_design.devices(check_design.as_drawn(devices.wait_ready().info))
