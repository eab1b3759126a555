"""Runs from and to TensorBoard's log directories."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests
import tensorflow as tf
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

import jupyter_dtf as dtf
from jupyter_dtf.errors import InvalidInput

from ..patience import until


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
    with pytest.raises(InvalidInput, match="has event files .* received: .*, which has none"):
        dtf.import_tensorboard(tmp_path)
