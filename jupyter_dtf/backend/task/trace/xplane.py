"""Conversion of TensorFlow's profile of functions and eager operations to rows of a trace. Pure: only reads the fields
of an XSpace.

The host's plane has a line for each thread, with nested events. The executor's ``Process`` events contain the id of the
step that they belong to; within them, each operation is an event ``name:Type``. An asynchronous operation (such as a
collective) is a pair of events that share a connection id. An eager operation is an ``EagerKernelExecute`` within an
``EagerLocalExecute: Type``. Step ids: -1 is TensorFlow's own work (constant folding), other negative ones belong to
functions, and positive ones to sessions, whose RunMetadata contains more.

Operations on a GPU are only in that GPU's plane, which has a line for each stream: each kernel and copy names its
operation in the stat ``tf_op``, as ``name:Type`` (seen in TensorFlow 2.21).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from ....schema.trace import TraceData, TracedOp

_OP = re.compile(r"(?P<op>[\w.][\w.\-/\\>]*):(?P<type>[A-Za-z_]\w*)$")
_GPU = re.compile(r"/device:GPU:(\d+)")
_EAGER = "EagerLocalExecute: "
_NOT_SHOWN = frozenset({"_Arg", "_EagerConst", "_HostRecv", "_HostSend", "_Recv", "_Retval", "_Send"})
_WORD_FROM_THE_CLIENT = "PyFunc"  # the eager operation with which trace/remote.py sends messages
_OWN_WORK = -1


class Window(NamedTuple):
    """The time window of a step, in nanoseconds since the epoch."""

    step: int
    start_ns: int
    end_ns: int


class _Execution(NamedTuple):
    op: str
    op_type: str
    start_ns: int
    end_ns: int
    is_eager: bool = False


class _Event(NamedTuple):
    name: str
    start_ns: int
    end_ns: int
    stats: Mapping[str, Any]


def rows(space: Any, windows: Sequence[Window], devices: Mapping[str, str], other: str, gpus: str = "") -> TraceData:
    """Return the operations that began in one of the windows, which must be in chronological order.

    ``devices`` maps node names to devices, from the graphs that ran; everything else gets the device ``other``. A GPU's
    device is ``gpus`` followed by its number.
    """
    origin_us = windows[0].start_ns // 1000

    def row(execution: _Execution, step: int, device: str) -> TracedOp:
        return TracedOp(
            step=step,
            op=execution.op,
            op_type=execution.op_type,
            device=device,
            start_us=(execution.start_ns - 1000 * origin_us) / 1000,
            duration_us=(execution.end_ns - execution.start_ns) / 1000,
        )

    found = []
    for execution in _executions(space):
        start_ns = execution.start_ns
        step = next((window.step for window in windows if window.start_ns <= start_ns <= window.end_ns), None)
        if step is not None and execution.op_type not in _NOT_SHOWN:
            found.append(row(execution, step, other if execution.is_eager else devices.get(execution.op, other)))
    found += [row(execution, step, f"{gpus}{number}") for number, step, execution in _kernels(space, windows)]
    found.sort(key=lambda op: op.start_us)
    return TraceData(origin_us=origin_us, ops=found)


def _kernels(space: Any, windows: Sequence[Window]) -> Iterator[tuple[int, int, _Execution]]:
    """Yield the operations that ran on GPUs, each with the number of its GPU and its step.

    Successive kernels and copies of an operation in one stream are joined. A GPU runs operations some time after they
    were submitted, so an operation is attributed to the last step that had begun when it ran.
    """
    begun_ns = _begun_ns(space)

    def named(event: _Event) -> tuple[str, str, int]:
        op, _, op_type = str(event.stats.get("tf_op", "")).rpartition(":")
        step = next((window.step for window in reversed(windows) if window.start_ns <= event.start_ns), -1)
        return op, op_type, step

    for plane in space.planes:
        if (gpu := _GPU.match(plane.name)) is None:
            continue
        for line in plane.lines:
            events = ((named(event), event) for event in _events(plane, line, begun_ns))
            of_steps = ((name, event) for name, event in events if name[0] and name[2] >= 0)
            for (op, op_type, step), together in groupby(of_steps, itemgetter(0)):
                kernels = [event for _, event in together]
                end_ns = max(event.end_ns for event in kernels)
                yield int(gpu[1]), step, _Execution(op, op_type, kernels[0].start_ns, end_ns)


def _executions(space: Any) -> Iterator[_Execution]:
    """Yield each execution of an operation in any thread, with its times in nanoseconds since the epoch."""
    begun_ns = _begun_ns(space)
    started: dict[int, _Event] = {}
    done: dict[int, _Event] = {}
    for plane in space.planes:
        if not plane.name.startswith("/host:CPU"):
            continue
        for line in plane.lines:
            yield from _of_thread(_events(plane, line, begun_ns), started, done)
    for connection, start in started.items():
        if connection in done:
            stats, end_ns = start.stats, done[connection].start_ns
            yield _Execution(stats["name"], stats["kernel_type"], start.start_ns, end_ns)


def _of_thread(events: list[_Event], started: dict[int, _Event], done: dict[int, _Event]) -> Iterator[_Execution]:
    """Yield the operations of one thread. Collect starts and ends of asynchronous operations in ``started`` and
    ``done``.
    """
    works_until, is_function = 0, False
    eager, eager_until = "", 0
    for event in events:
        if event.name == "ExecutorState::Process":
            works_until = event.end_ns
            is_function = _is_functions(event.stats.get("id", 0))
        elif event.name == "ExecutorState::ProcessAsync::Start":
            if _is_functions(event.stats.get("step_id", 0)) and "_p" in event.stats:
                started[event.stats["_p"]] = event
        elif event.name == "ExecutorState::ProcessAsync::Done":
            if "_c" in event.stats:
                done[event.stats["_c"]] = event
        elif event.name.startswith(_EAGER):
            eager, eager_until = event.name.removeprefix(_EAGER), event.end_ns
        elif event.name == "EagerKernelExecute":
            is_operation = not eager.startswith("__") and eager != _WORD_FROM_THE_CLIENT  # "__...": a function
            if event.start_ns <= eager_until and is_operation:
                yield _Execution(eager, eager, event.start_ns, event.end_ns, is_eager=True)
        elif is_function and event.start_ns <= works_until and (match := _OP.match(event.name)):
            yield _Execution(match["op"], match["type"], event.start_ns, event.end_ns)


def _is_functions(step_id: int) -> bool:
    return step_id < _OWN_WORK


def _events(plane: Any, line: Any, begun_ns: int) -> list[_Event]:
    """Return a thread's events, each before those nested in it."""
    names = {number: metadata.name for number, metadata in plane.event_metadata.items()}
    stats = {number: metadata.name for number, metadata in plane.stat_metadata.items()}
    found = []
    for event in line.events:
        start_ns = begun_ns + line.timestamp_ns + event.offset_ps // 1000
        values = {}
        for stat in event.stats:
            kind = stat.WhichOneof("value")
            value = getattr(stat, kind) if kind else None
            values[stats.get(stat.metadata_id, "")] = stats.get(value, "") if kind == "ref_value" else value
        found.append(_Event(names[event.metadata_id], start_ns, start_ns + event.duration_ps // 1000, values))
    found.sort(key=lambda event: (event.start_ns, -event.end_ns))
    return found


def _begun_ns(space: Any) -> int:
    """Return the time, in nanoseconds since the epoch, to which the times of lines are relative: the start of the
    profile, or 0.
    """
    for plane in space.planes:
        if plane.name == "Task Environment":
            names = {number: metadata.name for number, metadata in plane.stat_metadata.items()}
            for stat in plane.stats:
                if names.get(stat.metadata_id) == "profile_start_time":
                    return int(stat.uint64_value)
    return 0
