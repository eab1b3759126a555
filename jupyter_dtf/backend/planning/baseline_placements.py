"""The obvious placements: everything on one device, or a chain of layers cut into equal parts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...schema.placement import Device
from .costs import Costs


def simple_ways(every: Costs, devices: Sequence[Device], pinned: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield placements on each device alone, and then balanced placements on the first two, three and more devices.

    The devices are tried in the given order and also fastest first. Each placement has a device for every layer in the
    costs ``every``, and for the ``pinned`` layers, which stay on their devices.
    """
    for device in devices:
        yield dict.fromkeys(every.names, device.name) | dict(pinned)
    fastest_first = sorted(devices, key=lambda device: -device.flops_per_s)
    orders = [list(devices), fastest_first] if fastest_first != list(devices) else [fastest_first]
    for order in orders:
        for count in range(2, min(len(order), len(every.layers)) + 1):
            yield balanced(every, order[:count]) | dict(pinned)


def balanced(every: Costs, devices: Sequence[Device]) -> dict[str, str]:
    """Assign the layers to the devices in order, so that all devices are busy for about the same time."""
    rates = np.cumsum([device.flops_per_s for device in devices])
    work = np.cumsum(every.per_microbatch + 1e-300)
    middles = (work - every.per_microbatch / 2) / work[-1]
    numbers = np.searchsorted(rates[:-1] / rates[-1], middles, side="right")
    return {name: devices[number].name for name, number in zip(every.names, numbers.tolist(), strict=True)}
