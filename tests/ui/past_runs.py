"""Write runs of the past into the store, for tests and benchmarks of the browser: ``python past_runs.py < runs.json``.

Standard input is a list of ``{"id", "metrics", "tasks", "points", "notes", "age"}``: a run whose tasks each reported
every metric ``points`` times, and which told ``notes`` notes; ``age`` is how many seconds ago it was created. Where
they are given, ``name``, ``state``, ``message``, ``strategy`` and ``parameters`` are the run's, and ``traceback`` is
that of its first task; ``epoch`` is how many steps an epoch has, at whose end ``epoch_`` and ``val_`` metrics are
reported; ``nan`` (``metric``, ``step``, ``task``) is where a metric begins to be NaN, first on one task. ``lost``
(``step``, ``from``, ``task``) is where a task died, and the step from which the next attempt went on; ``checkpoint``
after how many steps there was one; ``slow`` (``step``, ``until``, ``task``) where a task held up the others. With
``shows`` its tasks reported histograms and pictures, and printed in colours. ``trial`` makes it a trial: the fields of
``TrialInfo``. ``code`` and ``design`` are texts that it was submitted with, ``origin`` has fields of ``Origin``.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from jupyter_dtf.backend.records.archive import summarize
from jupyter_dtf.backend.records.output_files import Clock, OutputWriter, lines_file
from jupyter_dtf.backend.records.store import Store
from jupyter_dtf.backend.task.media import histogram_of, picture_of, table_of, text_of
from jupyter_dtf.schema.checkpoint import CheckpointInfo
from jupyter_dtf.schema.events import (
    FAST_AGAIN,
    SLOW,
    AnyEvent,
    CheckpointSaved,
    Logged,
    Note,
    Point,
    Points,
    Progressed,
    RunChanged,
    Submitted,
    TaskChanged,
    checkpoints_of,
    encode_event,
    encode_points,
)
from jupyter_dtf.schema.origin import Origin, Source
from jupyter_dtf.schema.run import Progress, RunInfo, RunState, TaskInfo, TaskState
from jupyter_dtf.schema.search_trial import TrialInfo

BATCH = 200
PRINTED = [
    "\x1b[1mEpoch 1/3\x1b[0m",
    "\x1b[32m1/100\x1b[0m \x1b[37m━━━━━━━━━━\x1b[0m loss: 2.31",
    "\x1b[32m100/100\x1b[0m \x1b[32m━━━━━━━━━━\x1b[0m loss: 0.42",
    "2026-01-01 12:00:00 WARNING data: 3 examples were \x1b[33mskipped\x1b[0m",
    "Traceback (most recent call last):",
    '  File "train.py", line 12, in step',
    "\x1b[31mValueError\x1b[0m: labels must be from 0 to 9",
    "going on with the next batch",
]


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


def checkpoints(run: dict[str, Any], created: float, steps: range, attempt: int) -> list[AnyEvent]:
    """What is said of a run's steps and its checkpoints in these steps."""
    events: list[AnyEvent] = []
    for step in steps:
        at = created + step + attempt
        progress = Progress(done=step, total=run["points"], epoch=1, epochs=1)
        events.append(Progressed(time=at, attempt=attempt, progress=progress))
        if step and step % run["checkpoint"] == 0:
            path = f"/home/ada/checkpoints/{run['id']}/{step}"
            info = CheckpointInfo(step=step, epoch=0, time=at, bytes=121_000_000, metric=0.4, path=path, seconds=0.6)
            events.append(CheckpointSaved(time=at, attempt=attempt, task="worker:0", checkpoint=info))
    return events


def loss(run: dict[str, Any], created: float) -> list[AnyEvent]:
    """A task dies, and all are started again: between the steps of the one attempt and those of the other."""
    lost, tasks = run["lost"], [f"worker:{index}" for index in range(run["tasks"])]
    at = created + lost["step"]
    why = "died (SIGKILL, out of memory)"
    ends = [
        TaskChanged(
            time=at + 0.1 * (task != lost["task"]),
            task=task,
            state=TaskState.FAILED if task == lost["task"] else TaskState.STOPPED,
            host="lab2",
            signal="SIGKILL",
            message=why if task == lost["task"] else "ended with SIGTERM",
        )
        for task in sorted(tasks, key=lambda task: task != lost["task"])
    ]
    following = "attempt 2 of 4"
    text = f"In attempt 1 of 4, on lab2. All tasks are restarted: {following}"
    return [
        *ends,
        RunChanged(time=at + 0.1, state=RunState.RESTARTING, message=f"{lost['task']} {why}: {following} begins"),
        Note(time=at + 0.1, level="warning", title=f"{lost['task']} {why}", text=text, task=lost["task"]),
        *(
            TaskChanged(time=at + 1, task=task, attempt=1, state=TaskState.RUNNING, host="lab1", pid=2)
            for task in tasks
        ),
        RunChanged(time=at + 1, state=RunState.RUNNING, message=following),
    ]


def straggler(run: dict[str, Any], created: float) -> list[AnyEvent]:
    """What is said of a task that holds up the others, and of the end of that."""
    slow = run["slow"]
    parts = "310 ms for its own part of a step; the others' median is 100 ms. On host lab2"
    title = f"{slow['task']} takes 3.1 times as long for its part of a step as the others, on host lab2"
    again = f"{slow['task']} is as fast as the others again"
    return [
        Note(time=created + slow["step"], level="warning", title=title, text=parts, task=slow["task"], mark=SLOW),
        Note(time=created + slow["until"], level="info", title=again, text=parts, task=slow["task"], mark=FAST_AGAIN),
    ]


def shown(run: dict[str, Any], created: float) -> list[AnyEvent]:
    """What tasks show beside numbers: weights that spread, a square that grows, and output."""
    events: list[AnyEvent] = []
    random = np.random.default_rng(0)
    for task in range(run["tasks"]):
        for step in range(0, run["points"], max(1, run["points"] // 60)):
            share = step / run["points"]
            weights = random.normal(0.5 * share, 0.2 + share, 2000)
            weights[: int(20 * share)] = np.nan
            events.append(histogram_of(f"worker:{task}", "dense/kernel", step, weights, 30))
            events.append(histogram_of(f"worker:{task}", "dense/bias", step, random.normal(0, 0.01 + share, 50), 30))
        for step in range(0, run["points"], max(1, run["points"] // 10)):
            pixels = np.zeros((48, 48, 3), np.uint8)
            side = 4 + 40 * step // run["points"]
            pixels[2 : side + 2, 2 : side + 2] = (200, 80 * task, 40)
            events.append(picture_of(f"worker:{task}", "reconstruction", step, pixels, "a square"))
            worst = [{"image": f"test/{i}.png", "loss": 2 / (i + 1 + step), "right": i % 3 == 0} for i in range(30)]
            events.append(table_of(f"worker:{task}", "worst", step, worst))
            events.append(text_of(f"worker:{task}", "sample", step, f"worker:{task} at step {step}\n<b>says</b> this"))
        events.append(Logged(time=created + task, task=f"worker:{task}", stream="stdout", first=0, lines=PRINTED))
    return events


def print_into(run_dir: Path, run: dict[str, Any]) -> None:
    """The same output as files."""
    for task in range(run["tasks"]):
        writer = OutputWriter(lines_file(run_dir, f"worker:{task}", "stdout"))
        writer.write(Clock().now(), 0, len(PRINTED), "".join(f"{line}\n" for line in PRINTED).encode())
        writer.close()


def events_of(run: dict[str, Any], created: float) -> list[AnyEvent]:
    tasks = [f"worker:{index}" for index in range(run["tasks"])]
    names: list[str] = run["metrics"]
    events: list[AnyEvent] = []
    if "code" in run or "design" in run:
        code = [Source(name="cell", text=run["code"])] if "code" in run else []
        design = Source(name="lab.dtf", text=run["design"]) if "design" in run else None
        events.append(Submitted(time=created, code=code, design=design))
    events.append(RunChanged(time=created, state=RunState.LAUNCHING))
    events += [TaskChanged(time=created, task=task, state=TaskState.RUNNING, host="0", pid=1) for task in tasks]
    events.append(RunChanged(time=created, state=RunState.RUNNING))
    if lost := run.get("lost"):
        events += checkpoints(run, created, range(lost["step"]), 0)
        events += loss(run, created)
        events += checkpoints(run, created + lost["step"] - lost["from"], range(lost["from"], run["points"]), 1)
    if run.get("shows"):
        events += shown(run, created)
    if run.get("slow"):
        events += straggler(run, created)
        events.sort(key=lambda event: event.time)
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
    attempt = int("lost" in run)
    events += [TaskChanged(time=ended, task=task.task, attempt=attempt, **end_of(task)) for task in tasks_of(run)]
    events.append(RunChanged(time=ended, state=RunState(run.get("state", "succeeded")), message=run.get("message", "")))
    return events


def main() -> None:
    store = Store()
    for run in json.load(sys.stdin):
        created = time.time() - run["age"]
        events = events_of(run, created)
        saved = checkpoints_of(events)
        run_dir = Path(os.environ["JUPYTER_DTF_DATA_DIR"]) / "runs" / run["id"] if run.get("shows") else None
        if run_dir is not None:
            print_into(run_dir, run)
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
            run_dir=str(run_dir or ""),
            jobs={"worker": run["tasks"]},
            tasks=tasks_of(run),
            origin=msgspec.convert(run.get("origin", {}), Origin),
            trial=msgspec.convert(run.get("trial"), TrialInfo | None),
            checkpoint=saved[-1] if saved else None,
            next_seq=len(events),
        )
        store.write([msgspec.msgpack.encode(info)], ((info.id, seq, encode_event(e)) for seq, e in enumerate(events)))
        summarize(store, info.id)
    store.close()


if __name__ == "__main__":
    main()
