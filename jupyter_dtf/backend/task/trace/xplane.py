"""Conversion of TensorFlow's profile of functions and eager operations to rows of a trace. Pure: only reads the fields
of an XSpace.

The host's plane has a line for each thread, with nested events. The executor's ``Process`` events contain the id of the
step that they belong to; within them, each operation is an event ``name:Type``. An asynchronous operation (such as a
collective) is a pair of events that share a connection id. An eager operation is an ``EagerKernelExecute`` within an
``EagerLocalExecute: Type``. Step ids: -1 is TensorFlow's own work (constant folding), other negative ones belong to
functions, and positive ones to sessions, whose RunMetadata contains more.

Operations on a GPU are only in that GPU's plane, which has a line for each stream: each kernel and copy names its
operation in the stat ``tf_op``, as ``name:Type`` (seen in TensorFlow 2.21 on an H200). All kernels of a function that
XLA has compiled name the call to this function, and its instruction in the stat ``hlo_op``; the call itself is also in
the host's plane. Kernels of eager operations have no ``tf_op``: the event of their launch, with the same
``correlation_id``, is in the line of the thread that executed the operation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ....schema.trace import TraceData, TracedOp

_OP = re.compile(r"(?P<op>[\w.][\w.\-/\\>]*):(?P<type>[A-Za-z_]\w*)$")
_GPU = re.compile(r"/device:GPU:(\d+)")
_EAGER = "EagerLocalExecute: "
_NOT_SHOWN = frozenset({"_Arg", "_EagerConst", "_HostRecv", "_HostSend", "_Recv", "_Retval", "_Send"})
_WORD_FROM_THE_CLIENT = "PyFunc"  # the eager operation with which trace/remote_tracing.py sends messages
_OWN_WORK = -1
_JOINED_NS = 10_000
"""The longest gap, in nanoseconds, between kernels of an operation that are shown as one."""


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


class _Kernel(NamedTuple):
    """Kernels of an operation, which ran on a GPU one after the other."""

    gpu: int
    step: int
    call: str
    """The operation in the graph; the same for all instructions of a compiled function."""
    execution: _Execution


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

    kernels = list(_kernels(space, windows))
    called = {(kernel.step, kernel.call) for kernel in kernels}
    found = []
    for execution in _executions(space):
        start_ns = execution.start_ns
        step = next((window.step for window in windows if window.start_ns <= start_ns <= window.end_ns), None)
        if step is None or execution.op_type in _NOT_SHOWN:
            continue
        device = other if execution.is_eager else devices.get(execution.op, other)
        if _GPU.search(device) is None or (step, execution.op) not in called:  # otherwise, this is only the launch
            found.append(row(execution, step, device))
    found += [row(kernel.execution, kernel.step, f"{gpus}{kernel.gpu}") for kernel in kernels]
    found.sort(key=lambda op: op.start_us)
    return TraceData(origin_us=origin_us, ops=found)


def _kernels(space: Any, windows: Sequence[Window]) -> Iterator[_Kernel]:
    """Yield the operations that ran on GPUs.

    Successive kernels and copies of an operation in one stream are joined, unless the GPU was idle between them. A GPU
    runs operations some time after they were submitted, so an operation is attributed to the last step that had begun
    when it ran.
    """
    planes = [(int(gpu[1]), plane) for plane in space.planes if (gpu := _GPU.match(plane.name))]
    if not planes:
        return  # the host's events need not be searched for launches
    begun_ns = _begun_ns(space)
    eager = _eager_launches(space)
    for number, plane in planes:
        for line in plane.lines:
            last: _Kernel | None = None
            for event in _events(plane, line, begun_ns):
                call, op, op_type = _operation(event.stats, eager)
                step = next((window.step for window in reversed(windows) if window.start_ns <= event.start_ns), None)
                if not call or step is None:
                    continue
                if last is not None:
                    was = last.execution
                    if (last.step, was.op) == (step, op) and event.start_ns - was.end_ns <= _JOINED_NS:
                        last = last._replace(execution=was._replace(end_ns=max(was.end_ns, event.end_ns)))
                        continue
                    yield last
                last = _Kernel(number, step, call, _Execution(op, op_type, event.start_ns, event.end_ns))
            if last is not None:
                yield last


def _operation(stats: Mapping[str, Any], eager: Mapping[int, str]) -> tuple[str, str, str]:
    """Return the operation that a kernel or copy belongs to, and the name and type to show; empty if unknown."""
    call, _, op_type = str(stats.get("tf_op", "")).rpartition(":")
    if instruction := str(stats.get("hlo_op", "")):
        return call, f"{call}/{instruction}", instruction.partition(".")[0]
    if "tf_op" not in stats:
        call = op_type = eager.get(stats.get("correlation_id", -1), "")
    return call, call, op_type


def _eager_launches(space: Any) -> dict[int, str]:
    """Return the types of the eager operations that launched kernels, keyed by the correlation ids of the launches."""
    found: dict[int, str] = {}
    for plane in space.planes:
        if not plane.name.startswith("/host:CPU"):
            continue
        for line in plane.lines:
            eager, until = "", 0
            for event in _events(plane, line, 0):
                if event.name.startswith(_EAGER):
                    eager, until = event.name.removeprefix(_EAGER), event.end_ns
                elif "correlation_id" in event.stats and event.start_ns <= until and not eager.startswith("__"):
                    found[event.stats["correlation_id"]] = eager
    return found


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
