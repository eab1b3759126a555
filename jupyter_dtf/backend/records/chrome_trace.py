"""Converts a trace to Chrome's Trace Event Format, for chrome://tracing and Perfetto. Pure.

Each task is shown as a process, and each lane of its devices as a thread: where operations overlap, a device has
several lanes. A transfer is shown as a slice on a separate lane of each of its two devices, with a flow arrow from one
to the other. Times are in microseconds. The format: "Trace Event Format",
docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...schema.trace import TraceData, TracedOp, Transfer, task_of


def document(data: TraceData) -> dict[str, Any]:
    """Return a trace as a JSON object in Chrome's format."""
    events: list[dict[str, Any]] = []
    places = _Places(events)
    for device, ops in by_device(data).items():
        for op, lane in zip(ops, lanes(ops), strict=True):
            arguments = {"op": op.op, "type": op.op_type, "step": op.step, "device": device}
            events.append(_slice(op, op.op_type or op.op, "op", places.thread(device, "", lane), arguments))
    for number, (transfer, lane) in enumerate(zip(data.transfers, lanes(data.transfers), strict=True)):
        source = places.thread(transfer.source, "sends", lane)
        target = places.thread(transfer.target, "receives", lane)
        arguments = {"tensor": transfer.tensor, "bytes": transfer.bytes, "step": transfer.step}
        events += [_slice(transfer, transfer.tensor, "transfer", place, arguments) for place in (source, target)]
        flow = {"cat": "transfer", "name": transfer.tensor, "id": number}
        last_us = max(transfer.start_us, transfer.start_us + transfer.duration_us - 0.001)  # inside the slice
        events.append({**flow, "ph": "s", "ts": transfer.start_us, **source})
        events.append({**flow, "ph": "f", "bp": "e", "ts": last_us, **target})
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"origin_us": data.origin_us, "warnings": data.warnings},
    }


def by_device(data: TraceData) -> dict[str, list[TracedOp]]:
    """Return the operations of each device, keyed by device, with the devices sorted by name."""
    found: dict[str, list[TracedOp]] = {}
    for op in data.ops:
        found.setdefault(op.device, []).append(op)
    return dict(sorted(found.items()))


def lanes(ops: Sequence[TracedOp | Transfer]) -> list[int]:
    """Return the lane of each operation, counted from 0: the first lane that is free when the operation starts.

    ``ops`` must be sorted by start time.
    """
    free_at: list[float] = []
    chosen = []
    for op in ops:
        lane = next((number for number, free in enumerate(free_at) if free <= op.start_us), len(free_at))
        if lane == len(free_at):
            free_at.append(0.0)
        free_at[lane] = op.start_us + op.duration_us
        chosen.append(lane)
    return chosen


def _slice(
    what: TracedOp | Transfer, name: str, category: str, place: dict[str, int], arguments: dict[str, Any]
) -> dict[str, Any]:
    times = {"ts": what.start_us, "dur": what.duration_us}
    return {"ph": "X", "name": name, "cat": category, **times, **place, "args": arguments}


class _Places:
    """Numbers tasks and lanes. When one is first used, adds an event with its name."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self._events = events
        self._processes: dict[str, int] = {}
        self._threads: dict[tuple[str, str], int] = {}

    def thread(self, device: str, what: str, lane: int) -> dict[str, int]:
        """Return the ``pid`` and ``tid`` of a device's lane.

        ``what`` is ``sends``, ``receives``, or empty for operations.
        """
        task = task_of(device)
        name = " ".join(filter(None, [device.rpartition("/device:")[2] or task, what, str(lane + 1) if lane else ""]))
        if task not in self._processes:
            self._processes[task] = len(self._processes) + 1
            self._name("process_name", {"pid": self._processes[task], "tid": 0}, task)
        place = {"pid": self._processes[task]}
        if (task, name) not in self._threads:
            self._threads[task, name] = len(self._threads) + 1
            self._name("thread_name", {**place, "tid": self._threads[task, name]}, name)
        return {**place, "tid": self._threads[task, name]}

    def _name(self, what: str, place: dict[str, int], name: str) -> None:
        self._events.append({"ph": "M", "name": what, **place, "args": {"name": name}})


def longest(data: TraceData, most: int) -> TraceData:
    """Return a trace reduced to its ``most`` longest operations, in their original order."""
    if len(data.ops) <= most:
        return data
    kept = set(sorted(range(len(data.ops)), key=lambda index: -data.ops[index].duration_us)[:most])
    return TraceData(
        origin_us=data.origin_us,
        ops=[op for index, op in enumerate(data.ops) if index in kept],
        transfers=data.transfers,
        warnings=data.warnings,
        left_out=data.left_out + len(data.ops) - most,
    )
