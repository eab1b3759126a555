"""What the tasks of a run leave in its directory: a trace of each, and where a pipeline's layers ran."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ...errors import NotFound
from ...schema.design import RunPlacement
from ...schema.trace import TraceData, merge, placement_file, trace_file

HOW = (
    "trace_steps=(10, 12) of cluster.fit or cluster.run records what ran where in those steps; a program marks its "
    "steps with ctx.traced(step)"
)


def read_traces(run_dir: Path) -> TraceData:
    """The traces of all tasks in one, as far as there are any yet. Raises NotFound when there are none."""
    files = sorted(trace_file(run_dir, "*").parent.glob("*.json")) if run_dir.name else []
    if not files:
        raise NotFound(f"This run has no trace. {HOW}")
    return merge(msgspec.json.decode(file.read_bytes(), type=TraceData) for file in files)


def read_placement(run_dir: Path) -> RunPlacement:
    """Where the layers of a pipeline were to be and ran. Raises NotFound for any other run, and before a first step."""
    file = placement_file(run_dir)
    if not run_dir.name or not file.exists():
        raise NotFound("Only a run with dtf.Pipeline, after its first step, knows where its layers ran")
    return msgspec.json.decode(file.read_bytes(), type=RunPlacement)


def longest(data: TraceData, most: int) -> TraceData:
    """The same trace with at most ``most`` operations, the longest, in the same order."""
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
