"""Runs in a hub without a cluster, for tests of displays."""

from __future__ import annotations

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.client.run import Run
from jupyter_dtf.schema.events import (
    AnyEvent,
    EpochEnded,
    Logged,
    Point,
    Points,
    Progressed,
    RunChanged,
    TaskChanged,
    encode_event,
    encode_points,
)
from jupyter_dtf.schema.run import Progress, RunDescriptor, RunState, TaskState


class View:
    """A session that consists only of a hub."""

    is_closed = False

    def __init__(self) -> None:
        self.hub = Hub()


class FakeRun:
    """A run of two workers with events that the test provides."""

    def __init__(self, name: str = "mlp") -> None:
        self.view = View()
        self.view.hub.add_run(RunDescriptor(id="run-1", name=name, cluster="here", jobs={"worker": 2}, created=1.0))
        self.run = Run("run-1", in_session=self.view)  # type: ignore[arg-type]
        self._seq = 0
        self._points: dict[str, int] = {}  # the number of points of each task
        self.give(*(TaskChanged(time=1.0, task=f"worker:{i}", state=TaskState.PENDING) for i in (0, 1)))

    def give(self, *events: AnyEvent) -> None:
        for event in events:
            self.view.hub.apply("run-1", self._seq, encode_event(event))
            self._seq += 1

    def start(self) -> None:
        self.give(RunChanged(time=1.0, state=RunState.LAUNCHING), RunChanged(time=2.0, state=RunState.RUNNING))

    def end(self, state: RunState = RunState.SUCCEEDED, message: str = "") -> None:
        self.give(RunChanged(time=9.0, state=state, message=message))

    def progress(self, done: int, total: int, epoch: int = 0, epochs: int = 0) -> None:
        self.give(Progressed(time=3.0, progress=Progress(done=done, total=total, epoch=epoch, epochs=epochs)))

    def epoch(self, epoch: int, **logs: float) -> None:
        self.give(EpochEnded(time=4.0, epoch=epoch, step=10, logs=logs))

    def log(self, task: str, *lines: str, stream: str = "stdout") -> None:
        self.give(Logged(time=3.0, task=task, stream=stream, first=0, lines=list(lines)))

    def points(self, task: str, metric: str, values: list[float]) -> None:
        points = [Point(step=float(step), time=3.0, values={metric: value}) for step, value in enumerate(values)]
        first = self._points.get(task, 0)
        self._points[task] = first + len(points)
        self.give(Points(time=3.0, task=task, first=first, count=len(points), data=encode_points(points)))
