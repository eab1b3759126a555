"""Write runs of the past into the store, for tests and benchmarks of the browser: ``python past_runs.py < runs.json``.

Standard input is a list of ``{"id", "metrics", "tasks", "points", "notes", "age"}``: a run whose tasks each reported
every metric ``points`` times, and which told ``notes`` notes; ``age`` is how many seconds ago it was created. Where
they are given, ``name``, ``state``, ``message``, ``strategy`` and ``parameters`` are the run's, and ``traceback`` is
that of its first task; ``epoch`` is how many steps an epoch has, at whose end ``epoch_`` and ``val_`` metrics are
reported; ``nan`` (``metric``, ``step``, ``task``) is where a metric begins to be NaN, first on one task.
"""

from __future__ import annotations

import json
import math
import sys
import time
from typing import Any

import msgspec

from jupyter_dtf.backend.records.archive import summarize
from jupyter_dtf.backend.records.store import Store
from jupyter_dtf.schema.events import (
    AnyEvent,
    Note,
    Point,
    Points,
    RunChanged,
    TaskChanged,
    encode_event,
    encode_points,
)
from jupyter_dtf.schema.run import RunInfo, RunState, TaskInfo, TaskState

BATCH = 200


def value(name: str, metric: int, task: int, step: int) -> float:
    """A line that falls and wiggles, another for each metric and task; what rises by its nature rises."""
    if name == "memory_bytes":
        return (600.0 + 40 * task + 50 * math.log1p(step)) * (1 << 20)
    if name == "examples_per_second":
        return 9000.0 + 300 * task + 700 * math.sin(step / 5 + task)
    if name.endswith("accuracy"):
        return 1 - 0.9 * math.exp(-step / 60) - 0.02 * (1 + math.sin(step + task)) - 0.03 * name.startswith("val")
    if name.endswith("loss"):
        noise = 0.2 * math.sin(step * 1.7 + 2 * task) * math.exp(-step / 90)
        return 0.05 * (1 + task + 3 * name.startswith("val")) + 2.3 * math.exp(-step / 40) + noise
    return math.exp(-step / 400) * (1 + metric % 7) + 0.05 * math.sin(step * (1 + metric % 5) / 9 + task)


def tasks_of(run: dict[str, Any]) -> list[TaskInfo]:
    """The tasks of a run as they have ended: of one that failed, the first did and the others were stopped."""
    failed = run.get("state") == "failed"
    others = TaskState.STOPPED if run.get("state") in ("failed", "stopped") else TaskState.SUCCEEDED
    tasks = [TaskInfo(task=f"worker:{index}", state=others, host=str(index)) for index in range(run["tasks"])]
    if failed:
        tasks[0].state = TaskState.FAILED
        tasks[0].exit_code = 1
        tasks[0].message = run.get("message", "")
        tasks[0].traceback = run.get("traceback", "")
    return tasks


def end_of(task: TaskInfo) -> dict[str, Any]:
    return {
        "state": task.state,
        "exit_code": task.exit_code if task.state == TaskState.FAILED else 0,
        "message": task.message,
        "traceback": task.traceback,
    }


def is_nan(run: dict[str, Any], name: str, task: str, step: int) -> bool:
    nan = run.get("nan")
    return bool(nan) and name.endswith(nan["metric"]) and step >= nan["step"] + (task != nan["task"])


def ends_epoch(run: dict[str, Any], task: str, step: int) -> bool:
    """What is said of whole epochs, the first task says."""
    return task == "worker:0" and (step + 1) % run["epoch"] == 0


def events_of(run: dict[str, Any], created: float) -> list[AnyEvent]:
    tasks = [f"worker:{index}" for index in range(run["tasks"])]
    names: list[str] = run["metrics"]
    events: list[AnyEvent] = [RunChanged(time=created, state=RunState.LAUNCHING)]
    events += [TaskChanged(time=created, task=task, state=TaskState.RUNNING, host="0", pid=1) for task in tasks]
    events.append(RunChanged(time=created, state=RunState.RUNNING))
    for first in range(0, run["points"], BATCH):
        for index, task in enumerate(tasks):
            steps = range(first, min(first + BATCH, run["points"]))
            points = [
                Point(
                    step=float(step),
                    time=created + step,
                    values={
                        name: math.nan if is_nan(run, name, task, step) else value(name, number, index, step)
                        for number, name in enumerate(names)
                        if not run.get("epoch")
                        or not name.startswith(("epoch_", "val_"))
                        or ends_epoch(run, task, step)
                    },
                )
                for step in steps
            ]
            events.append(Points(time=created, task=task, first=first, count=len(points), data=encode_points(points)))
    levels = ("info", "warning", "error")
    events += [
        Note(time=created + number, level=levels[number % 3], title=f"note {number}", text="What it means.")
        for number in range(run["notes"])
    ]
    if nan := run.get("nan"):
        title = f"{nan['metric']} became NaN at step {nan['step']} on {nan['task']}"
        told = Note(time=created + nan["step"], level="warning", title=title, task=nan["task"])
        events.append(msgspec.structs.replace(told, metric=nan["metric"], step=float(nan["step"])))
    ended = created + run["points"]
    events += [TaskChanged(time=ended, task=task.task, **end_of(task)) for task in tasks_of(run)]
    events.append(RunChanged(time=ended, state=RunState(run.get("state", "succeeded")), message=run.get("message", "")))
    return events


def main() -> None:
    store = Store()
    for run in json.load(sys.stdin):
        created = time.time() - run["age"]
        events = events_of(run, created)
        info = RunInfo(
            id=run["id"],
            name=run.get("name", run["id"]),
            cluster="past",
            created=created,
            state=RunState(run.get("state", "succeeded")),
            message=run.get("message", ""),
            kind="fit",
            strategy=run.get("strategy", ""),
            parameters=run.get("parameters", {}),
            started=created,
            ended=created + run["points"],
            jobs={"worker": run["tasks"]},
            tasks=tasks_of(run),
            next_seq=len(events),
        )
        store.write([msgspec.msgpack.encode(info)], ((info.id, seq, encode_event(e)) for seq, e in enumerate(events)))
        summarize(store, info.id)
    store.close()


if __name__ == "__main__":
    main()
