"""Import of runs from TensorBoard's log directories, and export to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import requests
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

import jupyter_dtf as dtf
from jupyter_dtf.client import tensorboard
from jupyter_dtf.client.session import session
from jupyter_dtf.client.tensorboard import Follower, LogDirectory, folder_of
from jupyter_dtf.errors import InvalidInput, Unavailable
from jupyter_dtf.schema.run import RunInfo

from ..patience import until


@pytest.fixture(autouse=True)
def own_session() -> Iterator[None]:
    """Give each test its own store."""
    yield
    session().close()


def write_tensorflow_2(directory: Path, values: list[float]) -> None:
    writer = tf.summary.create_file_writer(str(directory))
    with writer.as_default():
        for step, value in enumerate(values):
            tf.summary.scalar("epoch_loss", value, step)
        tf.summary.histogram("weights", [1.0, 2.0], 0)
    writer.close()


def write_tensorflow_1(directory: Path, values: list[float]) -> None:
    writer = EventFileWriter(str(directory))
    for step, value in enumerate(values):
        summary = summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag="loss", simple_value=value)])
        writer.add_event(event_pb2.Event(wall_time=1000.0 + step, step=10 * step, summary=summary))
    writer.close()


def test_log_directories_become_runs_which_tensorboard_shows_again(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    write_tensorflow_1(logs / "old", [3.0, 1.0, 2.0])
    write_tensorflow_2(logs / "keras" / "train", [0.5, 0.25])
    write_tensorflow_2(logs / "keras" / "validation", [0.75, 0.625])
    old, keras = dtf.import_tensorboard(logs)
    assert [run.name for run in (old, keras)] == ["logs old", "logs keras"]
    assert {run.id for run in dtf.runs()} == {old.id, keras.id}

    points = old.metrics
    assert points["step"].tolist() == [0, 10, 20]
    assert points["time"].tolist() == [1000, 1001, 1002]
    assert points["value"].tolist() == [3, 1, 2]
    assert (old.status, old.info.started, old.info.ended) == ("succeeded", 1000, 1002)
    assert (old.info.latest, old.info.best["loss"].value) == ({"loss": 2.0}, 1.0)
    lines = keras.metrics.groupby("metric")["value"].apply(list).to_dict()
    assert lines == {"epoch_loss": [0.5, 0.25], "val_epoch_loss": [0.75, 0.625]}

    shown = old.tensorboard(tmp_path / "again")
    try:
        tags = f"{shown.url}data/plugin/scalars/tags"
        until(lambda: list(requests.get(tags).json().get("worker_0", [])) == ["loss"], "the tags of the run")
        answer = requests.get(f"{shown.url}data/plugin/scalars/scalars", params={"run": "worker_0", "tag": "loss"})
        assert answer.json() == [[1000.0, 0, 3.0], [1001.0, 10, 1.0], [1002.0, 20, 2.0]]
    finally:
        shown.close()
    (again,) = dtf.import_tensorboard(tmp_path / "again" / "worker_0", name="again")
    assert again.name == "again"
    assert again.metrics["value"].tolist() == [3, 1, 2]


def test_a_directory_without_scalars_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="must contain event files .*, got .*, which has none"):
        dtf.import_tensorboard(tmp_path)


def test_what_a_run_goes_on_to_report_is_added_once(tmp_path: Path) -> None:
    def points(*rows: tuple[str, str, float, float, float]) -> pd.DataFrame:
        frame: pd.DataFrame = pd.DataFrame(rows, columns=["task", "metric", "step", "time", "value"])
        return frame

    first = ("worker:0", "loss", 1.0, 1000.5, 3.0), ("worker:0", "accuracy", 1.0, 1000.5, 0.5)
    then = ("worker:0", "loss", 2.0, 1001.5, 2.0), ("worker:1", "loss", 1.0, 1000.25, 4.0)
    directory = LogDirectory(tmp_path / "logs")
    directory.add(points(*first))
    assert scalars(tmp_path / "logs" / "worker_0") == {"loss": [(1, 3.0)], "accuracy": [(1, 0.5)]}
    directory.add(points(*first, *then))
    directory.add(points(*first, *then))
    directory.close()
    assert scalars(tmp_path / "logs" / "worker_0") == {"loss": [(1, 3.0), (2, 2.0)], "accuracy": [(1, 0.5)]}
    assert scalars(tmp_path / "logs" / "worker_1") == {"loss": [(1, 4.0)]}
    again = LogDirectory(tmp_path / "logs")
    again.add(points(*first))
    again.close()
    assert scalars(tmp_path / "logs" / "worker_0") == {"loss": [(1, 3.0)], "accuracy": [(1, 0.5)]}


def test_runs_that_come_later_are_followed_beside_those_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorboard, "_AGAIN_S", 0.01)
    write_tensorflow_1(tmp_path / "one", [3.0])
    write_tensorflow_1(tmp_path / "two words", [5.0, 4.0])
    (one,) = dtf.import_tensorboard(tmp_path / "one")
    known = [one]
    follower = Follower(lambda: [(run, tmp_path / "all" / folder_of(run.info)) for run in known])
    try:
        assert scalars(tmp_path / "all" / f"one-{one.id}" / "worker_0") == {"loss": [(0, 3.0)]}
        (two,) = dtf.import_tensorboard(tmp_path / "two words")
        known.append(two)
        own = tmp_path / "all" / f"two_words-{two.id}" / "worker_0"
        until(lambda: own.is_dir() and scalars(own) == {"loss": [(0, 5.0), (10, 4.0)]}, "the files of the second run")
    finally:
        follower.close()


def test_a_store_that_is_busy_for_a_while_ends_no_following(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard, "_AGAIN_S", 0.01)
    answers: Iterator[list[float] | Unavailable] = iter([[], Unavailable("busy"), [3.0]])

    class Busy:
        id = "busy"
        info = RunInfo(id="busy", name="busy", cluster="here", created=1.0)

        @property
        def metrics(self) -> pd.DataFrame:
            values = next(answers, [3.0])
            if isinstance(values, Unavailable):
                raise values
            row = {"task": "worker:0", "metric": "loss", "step": 1, "time": 2.0}
            points: pd.DataFrame = pd.DataFrame([{**row, "value": value} for value in values], columns=[*row, "value"])
            return points

    follower = Follower(lambda: [(Busy(), tmp_path)])
    try:
        own = tmp_path / "worker_0"
        until(lambda: own.is_dir() or not follower._thread.is_alive(), "the files of the run")
    finally:
        follower.close()
    assert scalars(own) == {"loss": [(1, 3.0)]}


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the (step, value) pairs of a directory of event files, by tag."""
    found = EventAccumulator(str(directory)).Reload()
    return {tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in found.Tags()["scalars"]}
