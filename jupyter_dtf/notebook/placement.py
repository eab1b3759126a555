"""``describe`` and ``place``: a model's layers with what they need, and where they would go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..backend import placement
from ..schema.graph import LayerGraph
from ..schema.placement import Device, Link, Placement

if TYPE_CHECKING:
    from .cluster import Cluster

FLOPS_PER_S = 1e10
"""What a device of a cluster is taken to do before anybody has measured it: about one core."""


def describe(model: Any, input_shapes: Any = None) -> LayerGraph:
    """The graph of a Keras model's layers: shapes, parameters, bytes, FLOPs; of any model that can be called.

    ``input_shapes``: for a model that is not built, or with dimensions that are not known: the shapes of its inputs,
    the batch first. Raises InvalidInput.
    """
    from ..backend.task.describe import describe

    return describe(model, input_shapes)


def place(
    model: Any,
    devices: Cluster | Sequence[Device],
    *,
    batch_size: int = 32,
    microbatches: int = 1,
    pinned: Mapping[str, str] | None = None,
    link: Link | None = None,
) -> Placement:
    """Cut a model's layers into stages on a cluster's devices such that the slowest stage is as fast as it can be.

    ``model`` is a Keras model or what ``describe`` has made of it. ``pinned`` maps layers to the devices they stay on.
    The devices of a cluster are taken to be equally fast, and to send 1 GB/s; describe your own by ``Device`` and
    ``Link``. Raises InvalidInput, also if the layers do not fit.
    """
    graph = model if isinstance(model, LayerGraph) else describe(model)
    if not isinstance(devices, Sequence):
        devices = [Device(name=name, flops_per_s=FLOPS_PER_S) for name in devices.devices]
    return placement.place(graph, devices, batch_size=batch_size, microbatches=microbatches, pinned=pinned, link=link)
