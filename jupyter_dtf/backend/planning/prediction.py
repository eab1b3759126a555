"""Predicts the time, memory and traffic of a step of a placed model. Pure.

Any placement can be predicted: stages, layers that alternate between devices, layers with split columns, replicas. The
work that a device does without waiting for others is merged (``placed_layers.py``), and the step is simulated
(``schedule.py``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from ...errors import InvalidInput
from ...schema.api import Problem
from ...schema.graph import LayerGraph
from ...schema.placement import Calibration, Device, DeviceLoad, Link, Placement, Prediction, Slot
from ...schema.sizes import bytes_
from .costs import Costs, costs, measured
from .placed_layers import Spread
from .schedule import Busy, play

COPYING_BYTES_PER_S = 2e9
"""The rate at which a core copies a tensor that it sends or receives, if the link is not the bottleneck."""
_RESOLUTION = 1_000
"""The timeline merges neighboring intervals of a phase that are shorter than the step time divided by this number."""
_MOST_NAMED = 5
_TASK = re.compile(r"^/job:(?P<job>\w+)/task:(?P<index>\d+)(?P<rest>/.*)$")


def predict(
    graph: LayerGraph,
    placement: Placement,
    devices: Sequence[Device],
    *,
    batch_size: int = 32,
    microbatches: int = 1,
    replicas: int = 1,
    link: Link | None = None,
    calibration: Calibration | None = None,
) -> Prediction:
    """Predict a step of ``batch_size`` examples. ``link`` defaults to the calibration's link, if there is one.

    A layer without weights that is not placed runs on the device of its largest input. A placement may be incomplete:
    other layers that are not placed are named in ``problems`` and cost nothing, and entries for unknown layers and
    devices are ignored. Raises InvalidInput for a graph with a cycle and for invalid numbers.
    """
    if not 1 <= replicas <= batch_size:
        raise InvalidInput(f"`replicas` must be from 1 to batch_size, {batch_size}, got {replicas}", field="replicas")
    every = costs(graph, batch_size // replicas, microbatches, calibration)
    devices = measured(devices, calibration)
    link = link or (calibration.link if calibration is not None else Link())
    spread = Spread(every, placement, devices)
    busy = _played(spread, replicas, link)
    end = _end(busy)
    working = sum(each.duration_s for each in busy)
    copies, problems = _copies(spread, replicas)
    loads = _loads(spread, busy, copies)
    problems += _unplaced(spread) + [
        Problem(field="placement.devices", message=f"{load.device}: {load.problem}") for load in loads if load.problem
    ]
    return Prediction(
        step_seconds=end + (calibration.overhead_s if calibration is not None else 0.0),
        bubble=1 - working / (end * len(spread.used)) if end else 0.0,
        batch_size=batch_size,
        microbatches=microbatches,
        calibrated=calibration is not None,
        devices=loads,
        cuts=spread.cuts(),
        timeline=_timeline(busy, spread, end, copies),
        problems=problems,
    )


def seconds_if_it_fits(
    every: Costs, placement: Placement, devices: Sequence[Device], replicas: int, link: Link
) -> tuple[bool, float]:
    """Return whether all layers are placed and fit into memory, and the seconds of a step without its overhead.

    The results are the same as those of ``predict``, but are faster to compute for many placements of one graph.
    """
    spread = Spread(every, placement, devices)
    limits = [device.memory_bytes for device in devices]
    fits = all(spread.of_layer) and not any(
        0 < limit < needed for limit, needed in zip(limits, _needed(spread), strict=True)
    )
    return fits, _end(_played(spread, replicas, link))


def _played(spread: Spread, replicas: int, link: Link) -> list[Busy]:
    updates_s = {device: spread.update_s(device) + spread.exchange_s(device, replicas, link) for device in spread.used}
    segments = spread.segments(copying_s(link))
    return play(segments, updates_s, spread.costs.microbatches, link, takes_turns=spread.costs.takes_turns)


def copying_s(link: Link) -> float:
    """Return the seconds per byte of a transfer for which each of the two cores, sending and receiving, is busy.

    A transfer within a machine is a copy, half of it on each side; a slower network takes no more CPU time.
    """
    return min(0.5 / link.bytes_per_s, 1 / COPYING_BYTES_PER_S)


def _end(busy: Sequence[Busy]) -> float:
    return max((each.start_s + each.duration_s for each in busy), default=0.0)


def _needed(spread: Spread, *, filled: bool = False) -> list[int]:
    """Return the bytes of memory that each device needs, including the inputs of the microbatches that it holds.

    ``filled``: assume that all forward passes precede the first backward pass.
    """
    every = spread.costs
    memory = np.zeros(len(spread.devices))
    most = np.zeros(len(spread.devices))
    held = {} if filled or not every.takes_turns else spread.held()
    for part in spread.parts:
        share = held.get(part, every.microbatches) / every.microbatches
        let_go = every.activations[part.layer] * (1 - share)
        memory[part.device] += (every.memory[part.layer] - let_go) * part.fraction
        most[part.device] = max(most[part.device], share)
    _, taken = spread.traffic()
    more = np.array(taken) * every.batch_size * most
    return [round(each) for each in (memory + more).tolist()]


def _loads(spread: Spread, busy: Sequence[Busy], copies: Sequence[Mapping[int, int]]) -> list[DeviceLoad]:
    """Return the load of every device, in order. The first replica holds the weights; the others read them."""
    every = spread.costs
    count = len(spread.devices)
    memory = _needed(spread)
    filled = _needed(spread, filled=True) if every.takes_turns else [0] * count
    slots, work, busy_s = (np.zeros(count) for _ in range(3))
    layers = np.zeros(count, int)
    per_microbatch = every.per_microbatch
    for part in spread.parts:
        slots[part.device] += every.layers[part.layer].slot_bytes * part.fraction
        work[part.device] += per_microbatch[part.layer] * part.fraction
        layers[part.device] += 1
    for each in busy:
        busy_s[each.device] += each.duration_s
    given, taken = spread.traffic()
    copy_of = {device: (own, number) for number, copy in enumerate(copies) for own, device in copy.items()}
    loads = []
    for number, device in enumerate(spread.devices):
        own, copy = copy_of.get(number, (number, 0))
        elsewhere = slots[own] if copy else 0
        needed = round(memory[own] - elsewhere)
        both_ways = (given[own] + taken[own]) * every.batch_size  # gradients take the reverse path of the outputs
        weights, gradients = spread.exchanged(own)
        out, back = (gradients, weights) if copy else (weights * (len(copies) - 1), gradients * (len(copies) - 1))
        limit = device.memory_bytes
        loads.append(
            DeviceLoad(
                device=device.name,
                memory_bytes=needed,
                memory_limit_bytes=limit,
                share=float(work[own] / max(work.sum(), 1e-300)) / len(copies),
                busy_s=float(busy_s[own]),
                sent_bytes=round(both_ways + out),
                received_bytes=round(both_ways + back),
                layers=int(layers[own]),
                filled_bytes=round(filled[own] - elsewhere) if filled[own] else 0,
                problem=f"needs {bytes_(needed)} of memory, but has {bytes_(limit)}" if 0 < limit < needed else "",
            )
        )
    return loads


def _copies(spread: Spread, replicas: int) -> tuple[list[dict[int, int]], list[Problem]]:
    """Map the devices of the first replica to their counterparts in each replica, and report missing counterparts.

    The rank of a task's counterpart in replica k is higher by k * (tasks / replicas). A chief has rank 0.
    """
    numbers = {device.name: number for number, device in enumerate(spread.devices)}
    matches = [_TASK.match(device.name) for device in spread.devices]
    tasks = sorted({(match["job"] != "chief", match["job"], int(match["index"])) for match in matches if match})
    copies, missing = [{number: number for number in spread.used}], []
    for copy in range(1, replicas):
        there = {}
        for number in spread.used:
            match = matches[number]
            name = spread.devices[number].name
            if match is not None:
                rank = tasks.index((match["job"] != "chief", match["job"], int(match["index"])))
                _, job, index = tasks[(rank + copy * (len(tasks) // replicas)) % len(tasks)]
                name = f"/job:{job}/task:{index}{match['rest']}"
            if name in numbers and numbers[name] not in spread.used:
                there[number] = numbers[name]
            else:
                missing.append(name)
        copies.append(there)
    if not missing:
        return copies, []
    message = f"Each replica must have as many tasks as the first, got {replicas} replicas and no tasks at "
    return copies, [Problem(field="run.replicas", message=message + _few(missing))]


def _unplaced(spread: Spread) -> list[Problem]:
    names = [name for name, parts in zip(spread.costs.names, spread.of_layer, strict=True) if not parts]
    if not names:
        return []
    return [Problem(field="placement.devices", message=f"Each layer must have a device. Without one: {_few(names)}")]


def _timeline(busy: Sequence[Busy], spread: Spread, end: float, copies: Sequence[Mapping[int, int]]) -> list[Slot]:
    """Return the visible timeline. Consecutive parts of one pass are merged, as are parts too short to be visible."""
    slots: dict[int, list[Slot]] = {}
    seen = end / _RESOLUTION
    for each in busy:
        own = slots.setdefault(each.device, [])
        before = own[-1] if own else None
        if (
            before is not None
            and before.phase == each.phase
            and each.start_s - before.start_s - before.duration_s < seen
            and (before.microbatch == each.microbatch or max(before.duration_s, each.duration_s) < seen)
        ):
            before.duration_s = each.start_s + each.duration_s - before.start_s
        elif each.duration_s:
            own.append(
                Slot(
                    device=spread.devices[each.device].name,
                    microbatch=each.microbatch,
                    phase=each.phase,
                    start_s=each.start_s,
                    duration_s=each.duration_s,
                )
            )
    return [
        msgspec.structs.replace(slot, device=spread.devices[copy[device]].name)
        for copy in copies
        for device in sorted(slots)
        if device in copy
        for slot in slots[device]
    ]


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
