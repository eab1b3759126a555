"""Judges placements of a graph by their predicted step time, and improves them by local search. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...schema.placement import Device, Link, Placement
from .costs import Costs
from .prediction import seconds_if_it_fits

_EFFORT = 50_000
"""The maximum number of layers, edges and passes examined to improve a placement, which takes less than a second."""
_MOST_TRIED = 800
_WORTH = 1 - 1e-3
"""A placement is changed only if the change shortens the step to less than this fraction of its time."""

Where = Mapping[str, str]
"""The device of each layer that is not split."""


@dataclass
class Judge:
    """Predicts step times as ``predict`` does, without overhead. They are infinite if layers do not fit or are not
    placed.
    """

    costs: Costs
    devices: Sequence[Device]
    link: Link
    replicas: int = 1
    _known: dict[tuple[object, ...], float] = field(default_factory=dict)

    def step(self, where: Where, splits: Mapping[str, Sequence[str]]) -> float:
        key = (tuple(map(where.get, self.costs.names)), *((name, tuple(there)) for name, there in splits.items()))
        if key not in self._known:
            placement = Placement(devices=dict(where), splits={name: list(there) for name, there in splits.items()})
            fits, seconds = seconds_if_it_fits(self.costs, placement, self.devices, self.replicas, self.link)
            self._known[key] = seconds if fits else math.inf
        return self._known[key]

    def improved(self, where: Where, splits: Mapping[str, Sequence[str]], fixed: Collection[str]) -> dict[str, str]:
        """Return the result of moving layers until no move shortens the step, or too many moves were tried.

        The ``fixed`` layers are not moved.
        """
        best, step = dict(where), self.step(where, splits)
        looked_at = len(self.costs.layers) + len(self.costs.edges) + 4 * self.costs.microbatches * len(self.devices)
        left = min(_MOST_TRIED, _EFFORT // looked_at)
        is_better = True
        while is_better and left > 0:
            is_better = False
            for other in self._moves(best, fixed):
                left -= 1
                if (seconds := self.step(other, splits)) < step * _WORTH:
                    best, step, is_better = other, seconds, True
                    break
                if not left:
                    break
        return best

    def _moves(self, where: dict[str, str], fixed: Collection[str]) -> Iterator[dict[str, str]]:
        """Yield candidate moves: ends of stages to the neighboring stages, then whole stages, then single layers."""
        runs = [(device, list(names)) for device, names in itertools.groupby(
            (name for name in self.costs.names if name in where), where.__getitem__)]  # fmt: skip
        for (here, before), (there, after) in itertools.pairwise(runs):
            for count in _COUNTS:
                if count <= len(before):
                    yield _moved(where, before[-count:], there, fixed)
                if count <= len(after):
                    yield _moved(where, after[:count], here, fixed)
        names = [device.name for device in self.devices]
        for device, layers in runs:
            for other in names:
                if other != device:
                    yield _moved(where, layers, other, fixed)
        for name, device in where.items():
            for other in names:
                if other != device and name not in fixed:
                    yield {**where, name: other}


_COUNTS = (1, 2, 4, 8, 16)


def _moved(where: dict[str, str], names: Sequence[str], device: str, fixed: Collection[str]) -> dict[str, str]:
    return where | {name: device for name in names if name not in fixed}
