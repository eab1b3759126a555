"""Combines the measurements of a profiling run's tasks into one calibration. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

from ...schema.placement import Calibration, Device, Link
from ...schema.profile import TaskProfile

_ALIKE = 0.15
"""Devices whose speeds differ by less than this fraction are treated as equally fast: the difference is noise."""


def calibration(profiles: Sequence[TaskProfile], batch_size: int) -> Calibration:
    """Combine all tasks' profiles, given in task order and measured with microbatches of ``batch_size`` examples."""
    devices = _alike([device for profile in profiles for device in profile.devices])
    speeds = {device.name: device.flops_per_s for device in devices}
    reference = devices[0].flops_per_s
    alike = [profile for profile in profiles if speeds[profile.devices[0].name] == reference]
    return Calibration(
        batch_size=batch_size,
        devices=devices,
        link=_link(profiles[0].transfers),
        layer_seconds={
            layer: [statistics.mean(each) for each in zip(*(p.layer_seconds[layer] for p in alike), strict=True)]
            for layer in profiles[0].layer_seconds
        },
        overhead_s=statistics.mean(profile.step_s for profile in alike) + profiles[0].all_tasks_s,
    )


def _alike(devices: Sequence[Device]) -> list[Device]:
    """Return the devices, each with the mean speed of its group of similarly fast devices."""
    speeds: dict[str, float] = {}
    group: list[Device] = []

    def settle() -> None:
        mean = statistics.mean(device.flops_per_s for device in group)
        speeds.update((device.name, mean) for device in group)

    for device in sorted(devices, key=lambda device: device.flops_per_s):
        if group and device.flops_per_s > group[0].flops_per_s * (1 + _ALIKE):
            settle()
            group = []
        group.append(device)
    settle()
    return [msgspec.structs.replace(device, flops_per_s=speeds[device.name]) for device in devices]


def _link(transfers: Sequence[Sequence[float]]) -> Link:
    """Derive the latency from the smallest message, and the bandwidth from the extra time that the largest one takes.

    Both are computed from medians over the tasks. If nothing was measured, the default link is returned.
    """
    if not transfers:
        return Link()
    sizes = sorted({size for size, _ in transfers})
    seconds = {size: statistics.median(took for each, took in transfers if each == size) for size in sizes}
    small, large = sizes[0], sizes[-1]
    more = max(seconds[large] - seconds[small], 1e-9)
    return Link(bytes_per_s=(large - small) / more, latency_s=seconds[small])
