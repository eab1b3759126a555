"""Runs and events for the tests in this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from jupyter_dtf.schema.events import AnyEvent, Logged, Point, Points, Progressed, RunChanged, TaskChanged, encode_event
from jupyter_dtf.schema.run import Progress, RunInfo, RunState, TaskState

T0 = 1_700_000_000.0


def run_info(run_id: str = "r1", created: float = T0, **fields: object) -> RunInfo:
    return msgspec.structs.replace(RunInfo(id=run_id, name=run_id, cluster="c", created=created), **fields)


def points(
    task: str,
    first: int,
    rows: Sequence[Mapping[str, float]],
    steps: Sequence[float] | None = None,
    *,
    attempt: int = 0,
    begun: float = T0,
) -> Points:
    """Return an event with one point per row, at intervals of one second."""
    data = b"".join(
        msgspec.msgpack.encode(
            Point(step=float(steps[i] if steps else first + i), time=begun + first + i, values=dict(row))
        )
        for i, row in enumerate(rows)
    )
    return Points(time=begun, task=task, attempt=attempt, first=first, count=len(rows), data=data)


def short_run(end: RunState = RunState.SUCCEEDED) -> list[AnyEvent]:
    """Return the events of a run of two tasks, each of which reports three losses."""
    events: list[AnyEvent] = [RunChanged(time=T0, state=RunState.LAUNCHING)]
    events += [
        TaskChanged(time=T0 + 1, task=f"worker:{i}", state=TaskState.RUNNING, host=f"h{i}", pid=10 + i) for i in (0, 1)
    ]
    events.append(RunChanged(time=T0 + 1, state=RunState.RUNNING))
    events += [points(f"worker:{i}", 0, [{"loss": 3.0 + i}, {"loss": 2.0 + i}, {"loss": 1.0 + i}]) for i in (0, 1)]
    events.append(Logged(time=T0 + 2, task="worker:0", stream="stdout", first=0, lines=["hello"]))
    events.append(Progressed(time=T0 + 2, progress=Progress(done=3, total=3)))
    if end.is_final:
        events += [TaskChanged(time=T0 + 3, task=f"worker:{i}", state=TaskState.SUCCEEDED, exit_code=0) for i in (0, 1)]
        events.append(RunChanged(time=T0 + 4, state=end))
    return events


def encoded(events: Sequence[AnyEvent]) -> list[tuple[int, bytes]]:
    return [(seq, encode_event(event)) for seq, event in enumerate(events)]
