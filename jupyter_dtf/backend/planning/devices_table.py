"""A table of the performance figures of devices, from their makers' data sheets. Pure.

Peaks are those without sparsity, for the fastest common form factor (SXM if there is one). Training reaches only a
fraction of the peak. ``UTILIZATION`` has the fraction for each precision; a device or the user can override it.
"""

from __future__ import annotations

from ...errors import InvalidInput
from ...schema.hardware import DeviceFigures

UTILIZATION = {"fp32": 0.62, "tf32": 0.35, "bf16": 0.3, "fp16": 0.3}
"""The fraction of the peak that compute-bound layers reach, keyed by precision. ``fp32`` was fitted to TensorFlow's
published benchmarks of one K80 and one P100 (docs/forecast.md); the others are commonly reached with tensor cores."""
MEMORY_UTILIZATION = 0.55
"""The fraction of the memory bandwidth that memory-bound layers reach."""
LAUNCH_S = 8e-6
"""The seconds needed to launch one pass of one layer on a GPU, however little work it has."""

_G, _T = 1e9, 1e12
_GIB = 1 << 30

DEVICES = {
    device.name: device
    for device in (
        DeviceFigures(
            name="K80",
            title="NVIDIA Tesla K80, one of its two GPUs",
            flops_per_s={"fp32": 2.8 * _T},
            memory_bytes=12 * _GIB,
            memory_bytes_per_s=192 * _G,
            source="NVIDIA Tesla K80 board specification (5.6 TFLOP/s for both at their base clock, 480 GB/s)",
        ),
        DeviceFigures(
            name="P100",
            title="NVIDIA Tesla P100 SXM2 16 GB",
            flops_per_s={"fp32": 10.6 * _T, "fp16": 21.2 * _T},
            memory_bytes=16 * _GIB,
            memory_bytes_per_s=732 * _G,
            source="NVIDIA Tesla P100 data sheet",
        ),
        DeviceFigures(
            name="V100",
            title="NVIDIA V100 SXM2 32 GB",
            flops_per_s={"fp32": 15.7 * _T, "fp16": 125 * _T},
            memory_bytes=32 * _GIB,
            memory_bytes_per_s=900 * _G,
            source="NVIDIA V100 data sheet",
        ),
        DeviceFigures(
            name="A100",
            title="NVIDIA A100 SXM4 80 GB",
            flops_per_s={"fp32": 19.5 * _T, "tf32": 156 * _T, "bf16": 312 * _T, "fp16": 312 * _T},
            memory_bytes=80 * _GIB,
            memory_bytes_per_s=2039 * _G,
            source="NVIDIA A100 data sheet",
        ),
        DeviceFigures(
            name="H100",
            title="NVIDIA H100 SXM5 80 GB",
            flops_per_s={"fp32": 67 * _T, "tf32": 494.5 * _T, "bf16": 989.5 * _T, "fp16": 989.5 * _T},
            memory_bytes=80 * _GIB,
            memory_bytes_per_s=3350 * _G,
            source="NVIDIA H100 data sheet",
        ),
        DeviceFigures(
            name="H200",
            title="NVIDIA H200 SXM5 141 GB",
            flops_per_s={"fp32": 67 * _T, "tf32": 494.5 * _T, "bf16": 989.5 * _T, "fp16": 989.5 * _T},
            memory_bytes=141 * 10**9,
            memory_bytes_per_s=4800 * _G,
            source="NVIDIA H200 data sheet",
        ),
        DeviceFigures(
            name="CPU",
            title="One core of a server's CPU, AVX2",
            flops_per_s={"fp32": 80 * _G},
            memory_bytes=4 * _GIB,
            memory_bytes_per_s=10 * _G,
            source="2.5 GHz, two fused multiply-adds of eight numbers in a cycle; a core's share of a server's memory",
        ),
    )
}


def device(name: str, precision: str) -> DeviceFigures:
    """Return the figures of a device. Raises InvalidInput if the device or its speed in this precision is unknown."""
    found = DEVICES.get(name)
    if found is None:
        raise InvalidInput(f"`device` must be one of {', '.join(DEVICES)}, got {name!r:.100}", field="device")
    if precision not in found.flops_per_s:
        known = ", ".join(found.flops_per_s)
        raise InvalidInput(f"`precision` must be one of {known} for {name}, got {precision!r}", field="precision")
    return found
