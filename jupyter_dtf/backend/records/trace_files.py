"""Reads files that the tasks of a run leave in its directory: their traces, and where a pipeline's layers ran."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from ...errors import NotFound, Unavailable
from ...schema import private_files
from ...schema.design import RunPlacement
from ...schema.trace import TraceData, TracedOp, merge, placement_file, trace_file

T = TypeVar("T")

HOW = (
    "run.profile(steps=3) traces the next steps of an active run, and trace_steps=(10, 12) of cluster.fit or "
    "cluster.run traces those steps; a program marks its steps with ctx.traced(step)"
)


class _TraceFile(TraceData, kw_only=True):
    """The contents of a trace file.

    ``ops`` is required here: every version writes it, so a file without it is not a trace.
    """

    ops: list[TracedOp]


def read_traces(run_dir: Path) -> TraceData:
    """Return the traces of all tasks so far, merged into one. Raises NotFound if there are none.

    Only the traces of the newest profile are merged: some tasks may have left traces of earlier profiles.
    """
    files = sorted(trace_file(run_dir, "*").parent.glob("*.json")) if run_dir.name else []
    if not files:
        raise NotFound(f"This run has no trace. {HOW}")
    traces = [_decoded(file, _TraceFile) for file in files]
    newest = max(trace.profile for trace in traces)
    return merge(trace for trace in traces if trace.profile == newest)


def read_placement(run_dir: Path) -> RunPlacement:
    """Return where the layers of a pipeline were placed and ran.

    Raises NotFound for other runs, and before the first step.
    """
    file = placement_file(run_dir)
    if not run_dir.name or not file.exists():
        raise NotFound("The devices of layers are known only for runs with dtf.Pipeline, after their first step")
    return _decoded(file, RunPlacement)


def _decoded(file: Path, type_: type[T]) -> T:
    """Decode a file that a task has written. Raises Unavailable if the file cannot be read or decoded."""
    try:
        return msgspec.json.decode(private_files.read_file(file), type=type_)
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unavailable(f"The file {file.name} of the run cannot be read: {error!s:.200}") from None
