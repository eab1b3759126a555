"""Traces of steps: the operations with their devices and times, and the transfers of tensors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from ..errors import InvalidInput
from . import private_files
from .arguments import check_integer, plain
from .base import PeerStruct

MAX_STEPS = 100
PROFILE_STEPS = 3
"""The default number of steps of a profile."""


class TracedOp(PeerStruct):
    """One execution of one operation."""

    step: int
    op: str
    """The name of the operation's node in the graph; for an eager operation, its type."""
    op_type: str
    """The type that was executed. TensorFlow's optimizer may have replaced the original, as with ``_FusedMatMul``."""
    device: str
    """The device, such as ``/job:worker/task:1/device:CPU:0``; only the job and the task if the device is unknown."""
    start_us: float
    """Microseconds since the trace's ``origin_us``."""
    duration_us: float


class Transfer(PeerStruct):
    """A tensor that was sent from one task to another."""

    step: int
    tensor: str
    """The name of the operation that produced the tensor."""
    source: str
    """The device that sent the tensor."""
    target: str
    bytes: int
    start_us: float
    """The time at which the receiver had requested the tensor and the sender had it ready, whichever was later."""
    duration_us: float


class TraceData(PeerStruct):
    """A trace, ordered by start times."""

    origin_us: int = 0
    """The time, in microseconds since 1970, to which all times in the trace are relative."""
    ops: list[TracedOp] = []
    transfers: list[Transfer] = []
    warnings: list[str] = []
    """A sentence for each operation that was replaced, or did not run on the device on which the program placed it."""
    left_out: int = 0
    """The number of omitted operations, which are the shortest ones."""
    profile: int = 0
    """The number of the profile in the run, counted from 1; 0: the steps of ``trace_steps``."""


def task_of(device: str) -> str:
    """Return the short name of a device's task: ``worker:1`` for ``/job:worker/task:1/device:CPU:0``."""
    parts = dict(part.split(":", 1) for part in device.split("/") if ":" in part)
    return f"{parts.get('job', 'localhost')}:{parts.get('task', '0')}"


def trace_file(run_dir: Path, task: str) -> Path:
    """Return the path to which a task of a run, such as ``worker:1``, writes its trace."""
    return run_dir / "traces" / f"{task.replace(':', '-')}.json"


def leave_trace(run_dir: Path, task: str, data: TraceData) -> None:
    """Write a task's trace into the run's directory, atomically."""
    _leave(trace_file(run_dir, task), data)


def placement_file(run_dir: Path) -> Path:
    """Return the path to which the client of a pipeline writes a ``schema.design.RunPlacement``."""
    return run_dir / "placement.json"


def leave_placement(run_dir: Path, data: PeerStruct) -> None:
    """Write the placement of a run's layers into the run's directory, atomically."""
    _leave(placement_file(run_dir), data)


def _leave(path: Path, data: PeerStruct) -> None:
    private_files.make_dir(path.parent)
    private_files.write_file(path, msgspec.json.encode(data))


def relative(ops: list[TracedOp], transfers: list[Transfer]) -> TraceData:
    """Create a trace from operations and transfers, modifying them in place. Their times are in µs since the epoch."""
    items: list[TracedOp | Transfer] = [*ops, *transfers]
    origin_us = int(min((item.start_us for item in items), default=0))
    for item in items:
        item.start_us -= origin_us
    ops.sort(key=lambda op: op.start_us)
    transfers.sort(key=lambda transfer: transfer.start_us)
    return TraceData(origin_us=origin_us, ops=ops, transfers=transfers)


def merge(parts: Iterable[TraceData]) -> TraceData:
    """Merge traces, modifying them in place. The times of each trace are by its own machine's clock."""
    found = [part for part in parts if part.ops or part.transfers or part.warnings]
    if not found:
        return TraceData()
    merged = TraceData(origin_us=min(part.origin_us + int(_first_us(part)) for part in found))
    for part in found:
        shift_us = part.origin_us - merged.origin_us
        items: list[TracedOp | Transfer] = [*part.ops, *part.transfers]
        for item in items:
            item.start_us += shift_us
        merged.ops += part.ops
        merged.transfers += part.transfers
        merged.warnings += [warning for warning in part.warnings if warning not in merged.warnings]
        merged.left_out += part.left_out
        part.origin_us = merged.origin_us
    merged.ops.sort(key=lambda op: op.start_us)
    merged.transfers.sort(key=lambda transfer: transfer.start_us)
    return merged


def _first_us(data: TraceData) -> float:
    starts = [item.start_us for items in (data.ops, data.transfers) for item in items]
    return min(starts, default=0.0)


def check_count(steps: object) -> int:
    """Validate the number of steps of a profile. Raises InvalidInput."""
    return check_integer(steps, "steps", 1, MAX_STEPS)


def check_steps(steps: object) -> list[int]:
    """Validate ``trace_steps``, and return it as ``[first, last]``; empty for None. Raises InvalidInput."""
    if steps is None:
        return []
    pair = list(plain(steps)) if isinstance(steps, (list, tuple)) else []
    if len(pair) != 2 or not all(isinstance(step, int) and not isinstance(step, bool) for step in pair):
        raise InvalidInput(
            f"`trace_steps` must be (first, last), two integers, got {steps!r:.100}", field="trace_steps"
        )
    first, last = pair
    if not 1 <= first <= last or last - first >= MAX_STEPS:
        raise InvalidInput(
            f"`trace_steps` must be (first, last) with 1 <= first <= last and at most {MAX_STEPS} steps, got {steps!r}",
            field="trace_steps",
        )
    return pair
