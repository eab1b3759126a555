"""The compute time of one task in a step, for each layer. Pure.

The times come from a calibration if there is one. Otherwise, each pass of a layer takes as long as its arithmetic or
as the movement of its tensors through the device's memory, whichever is longer, plus the device's launch time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...schema.graph import Layer, LayerGraph
from ...schema.hardware import DeviceFigures
from ...schema.placement import Calibration
from .costs import BACKWARD, Floats, ordered
from .devices_table import LAUNCH_S, MEMORY_UTILIZATION, UTILIZATION

FAST_KERNELS = (3, 5)
"""The kernel sizes of convolutions of stride 1 that cuDNN computes in single precision with fewer multiplications, by
Winograd's algorithm F(2 x 2, r x r) (Lavin and Gray, arXiv:1509.09308) or, for larger sizes, by similar transforms."""
TILE = 128
"""Convolutions compute their output channels in tiles of this size; a partial tile costs as much as a full one."""
_ELEMENT = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
"""Bytes per element of an activation, keyed by precision."""


@dataclass(frozen=True)
class Workload:
    """The compute time and the memory of a model in one task. Arrays have one entry per layer, in topological order."""

    forward_s: Floats
    """Seconds of the forward pass of one example."""
    backward_s: Floats
    start_s: Floats
    """The part of both passes that does not depend on the number of examples, in seconds per step."""
    update_s: float
    """Seconds per step to update all variables."""
    overhead_s: float
    """Seconds per step that are not spent in a layer."""
    gradient_bytes: Floats
    parameter_bytes: float
    slot_bytes: float
    activation_bytes: float
    """Bytes of the activations of one example."""
    overlaps: bool
    """Whether the device computes while it communicates: a GPU does, a CPU core does not."""
    source: str

    @property
    def gradients(self) -> float:
        """Bytes of all gradients."""
        return float(self.gradient_bytes.sum())

    def compute_s(self, examples: float) -> float:
        """Return the seconds of both passes over this many examples, including the fixed time per step."""
        work = float(self.forward_s.sum() + self.backward_s.sum()) * examples
        return work + float(self.start_s.sum()) + self.overhead_s

    def backward_ends_s(self, examples: float) -> Floats:
        """Return the times at which each layer's gradients are ready, in seconds from the start of the step.

        The gradients of the last layer are ready first.
        """
        share = 2 / 3  # the backward passes' share of the fixed time
        forward = float(self.forward_s.sum()) * examples + float(self.start_s.sum()) * (1 - share) + self.overhead_s
        backward = self.backward_s * examples + self.start_s * share
        ends: Floats = forward + np.cumsum(backward[::-1])[::-1]
        return ends

    def memory_bytes(self, examples: float) -> float:
        """Return the bytes of memory that a device with the whole model needs."""
        return self.parameter_bytes + self.gradients + self.slot_bytes + self.activation_bytes * examples

    def scaled(self, factor: float) -> Workload:
        """Return the workload on a device that is this many times slower."""
        return replace(
            self,
            forward_s=self.forward_s * factor,
            backward_s=self.backward_s * factor,
            start_s=self.start_s * factor,
            update_s=self.update_s * factor,
            overhead_s=self.overhead_s * factor,
        )


def calibrated(graph: LayerGraph, calibration: Calibration, *, on_cpu: bool) -> Workload:
    """Derive the workload from measurements on the real devices.

    Layers that were not measured run at the speed of the first measured device.
    """
    layers = ordered(graph)
    rate = calibration.devices[0].flops_per_s
    passes = np.zeros((len(layers), 3))
    for index, layer in enumerate(layers):
        seconds = calibration.layer_seconds.get(layer.id)
        if seconds is not None:
            size = calibration.batch_size
            passes[index] = seconds[0] / size, seconds[1] / size, seconds[2]
        else:
            passes[index] = layer.flops / rate, layer.flops * BACKWARD / rate, _touched(layer) / rate
    return _workload(
        layers,
        forward_s=passes[:, 0],
        backward_s=passes[:, 1],
        start_s=np.zeros(len(layers)),
        update_s=float(passes[:, 2].sum()),
        overhead_s=calibration.overhead_s,
        overlaps=not on_cpu,
        source="calibration",
    )


def published(graph: LayerGraph, device: DeviceFigures, precision: str, utilization: float = 0.0) -> Workload:
    """Derive the workload from a device's data sheet.

    ``utilization``: the fraction of the peak speed that is reached; 0: the default.
    """
    layers = ordered(graph)
    on_cpu = device.name == "CPU"
    rate = device.flops_per_s[precision] * (utilization or device.utilization or UTILIZATION[precision])
    memory = device.memory_bytes_per_s * MEMORY_UTILIZATION
    element = _ELEMENT[precision] / 4
    forward, backward = np.zeros(len(layers)), np.zeros(len(layers))
    for index, layer in enumerate(layers):
        flops = float(layer.flops) if on_cpu else _arithmetic(layer, precision)
        moved = element * 4 * sum(_numbers(shape) for shape in (*layer.input_shapes, *layer.output_shapes))
        forward[index] = max(flops / rate, moved / memory)
        backward[index] = BACKWARD * max(flops / rate, moved / memory)
    if (first := next((index for index, layer in enumerate(layers) if layer.gradient_bytes), None)) is not None:
        backward[first] /= BACKWARD  # the gradients of the data are not needed
    touched = sum(_touched(layer) for layer in layers)
    return _workload(
        layers,
        forward_s=forward,
        backward_s=backward,
        start_s=np.full(len(layers), 0.0 if on_cpu else 3 * LAUNCH_S),
        update_s=touched / memory,
        overhead_s=0.0,
        overlaps=not on_cpu,
        source="published",
        element=element,
    )


def assumed(graph: LayerGraph, flops_per_s: float, *, on_cpu: bool) -> Workload:
    """Derive the workload only from an assumed number of operations per second of a device."""
    layers = ordered(graph)
    forward = np.array([layer.flops / flops_per_s for layer in layers], float)
    return _workload(
        layers,
        forward_s=forward,
        backward_s=forward * BACKWARD,
        start_s=np.zeros(len(layers)),
        update_s=sum(_touched(layer) for layer in layers) / flops_per_s,
        overhead_s=0.0,
        overlaps=not on_cpu,
        source="assumed",
    )


def of_a_run(compute_s: float, update_s: float, batch_size: int, weights: int, *, overlaps: bool) -> Workload:
    """Derive the workload from the steps of a run, in which a task needs ``compute_s`` for ``batch_size`` examples.

    ``weights``: the number of parameters. The layers are unknown: gradients are assumed to become ready evenly over the
    backward pass.
    """
    parts = 32
    third = np.full(parts, compute_s / max(batch_size, 1) / 3 / parts)
    return Workload(
        forward_s=third,
        backward_s=third * BACKWARD,
        start_s=np.zeros(parts),
        update_s=update_s,
        overhead_s=0.0,
        gradient_bytes=np.full(parts, weights * 4 / parts),
        parameter_bytes=weights * 4.0,
        slot_bytes=0.0,
        activation_bytes=0.0,
        overlaps=overlaps,
        source="run",
    )


def _workload(layers: list[Layer], *, element: float = 1.0, **figures: object) -> Workload:
    return Workload(
        gradient_bytes=np.array([layer.gradient_bytes for layer in layers], float),
        parameter_bytes=float(sum(layer.parameter_bytes for layer in layers)),
        slot_bytes=float(sum(layer.slot_bytes for layer in layers)),
        activation_bytes=element * sum(layer.activation_bytes for layer in layers),
        **figures,  # type: ignore[arg-type]
    )


def _touched(layer: Layer) -> float:
    """Return how many bytes an update of the layer's variables reads and writes."""
    return float(layer.parameter_bytes + layer.gradient_bytes + layer.slot_bytes) if layer.gradient_bytes else 0.0


def _numbers(shape: list[int]) -> float:
    return float(math.prod(shape)) if shape else 0.0


def _arithmetic(layer: Layer, precision: str) -> float:
    """Return the operations that a GPU executes for a layer's forward pass, estimated from the layer's shapes."""
    if layer.kind != "Conv2D" or not layer.input_shapes or not layer.output_shapes:
        return float(layer.flops)
    before, after = layer.input_shapes[0], layer.output_shapes[0]
    if len(before) != 4 or len(after) != 4 or not before[3] * after[3]:
        return float(layer.flops)
    tiles = -(-after[3] // TILE) * TILE / after[3]
    return layer.flops * tiles / (_saved(layer.parameters // (before[3] * after[3]), before, after, precision))


def _saved(kernel: int, before: list[int], after: list[int], precision: str) -> float:
    """Return the factor by which a fast algorithm reduces multiplications: 2.25 for 3 x 3, 2.78 for 5 x 5."""
    size = math.isqrt(kernel)
    same = all(before[axis] - after[axis] in (0, size - 1) for axis in (1, 2))
    if precision != "fp32" or size * size != kernel or size not in FAST_KERNELS or not same:
        return 1.0
    return (2 * size) ** 2 / (size + 1) ** 2
