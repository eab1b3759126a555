from __future__ import annotations

import json

import numpy as np
import pytest

from jupyter_dtf.backend.records import shared_plots as plots
from jupyter_dtf.backend.records.decimate import decimate
from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.backend.records.shared_plots import series_message, shared_plot
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.events import encode_event
from jupyter_dtf.schema.run import TaskInfo

from .run_events import points, run_info


class Viewer:
    """A browser, with the points that it has drawn."""

    def __init__(self, hub: Hub) -> None:
        self._plot = shared_plot(hub, "r1", "loss", 100, "step")
        self._version = 0
        self.x: list[float] = []
        self.y: list[float] = []
        self.got: list[bytes] = []

    def look(self) -> None:
        newest = False
        while not newest:
            self._version, frames, newest = self._plot.since(self._version)
            if frames:
                self.got += frames
                (frame,) = json.loads(series_message("r1", frames))["frames"]
                assert frame["start"] <= len(self.x)
                self.x[frame["start"] :], self.y[frame["start"] :] = frame["x"], frame["y"]


def test_all_viewers_have_what_there_is_and_share_the_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "FRESH_S", 0.0)
    hub = Hub()
    hub.add_run(run_info())
    first, second, seldom, lost = (Viewer(hub) for _ in range(4))
    values = np.random.default_rng(0).normal(size=20_000)
    for seq in range(200):
        part = values[100 * seq : 100 * seq + 100]
        hub.apply("r1", seq, encode_event(points("worker:0", 100 * seq, [{"loss": float(v)} for v in part])))
        first.look()
        second.look()
        if seq % 7 == 0:
            seldom.look()
    for viewer in (seldom, lost):
        viewer.look()
    expected = decimate(values, 100)
    for viewer in (first, second, seldom, lost):
        assert viewer.x == expected.tolist()
        assert viewer.y == values[expected].tolist()
    assert all(one is other for one, other in zip(first.got, second.got, strict=True))
    assert len(lost.got) == 1


def test_widths_are_checked() -> None:
    with pytest.raises(InvalidInput, match="16 to 8192"):
        shared_plot(Hub(), "r1", "loss", 1, "step")


def test_what_was_done_twice_comes_as_a_line_of_its_attempt() -> None:
    hub = Hub()
    hub.add_run(run_info())
    hub.apply("r1", 0, encode_event(points("worker:0", 0, [{"loss": 3.0}, {"loss": 2.0}])))
    hub.apply("r1", 1, encode_event(points("worker:0", 0, [{"loss": 1.0}], steps=[1], attempt=1)))
    _, frames, _ = shared_plot(hub, "r1", "loss", 100, "step").since(0)
    found = {frame["task"]: frame for frame in json.loads(series_message("r1", frames))["frames"]}
    assert {task: (frame["y"], frame["replaced"]) for task, frame in found.items()} == {
        "worker:0": ([3.0, 1.0], ""),
        "worker:0, attempt 1": ([2.0], "worker:0"),
    }


def test_lines_of_many_tasks_are_drawn_narrower_than_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "_MOST_POINTS", 400)
    tasks = [f"worker:{index}" for index in range(4)]
    values = np.random.default_rng(0).normal(size=(4, 5000))
    values[2, 777] = 9.0
    hub = Hub()
    hub.add_run(run_info(tasks=[TaskInfo(task=task) for task in tasks]))
    for seq, task in enumerate(tasks):
        hub.apply("r1", seq, encode_event(points(task, 0, [{"loss": float(v)} for v in values[seq]])))
    _, encoded, _ = shared_plot(hub, "r1", "loss", 600, "step").since(0)
    frames = {frame["task"]: frame for frame in json.loads(series_message("r1", encoded))["frames"]}
    assert set(frames) == {"", *tasks}
    for task, line in zip(tasks, values, strict=True):
        assert frames[task]["x"] == decimate(line, 100).tolist()
    assert len(frames[""]["x"]) > 2 * len(frames["worker:0"]["x"])
    assert max(frames["worker:2"]["y"]) == 9.0  # outliers are kept


def test_few_tasks_are_as_wide_as_the_plot() -> None:
    assert plots.width_of_each(600, 64) == 600
    assert plots.width_of_each(600, 512) == 78
    assert plots.width_of_each(600, 100_000) == 16
