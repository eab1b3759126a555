"""Keras callbacks that write files, when tasks are killed: only one task writes, and nothing is written twice."""

from __future__ import annotations

import csv
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import keras
import numpy as np
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.task.context import current
from jupyter_dtf.client.session import session

from ..patience import left_s

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])

EPOCHS, STEPS, BATCH = 3, 10, 8
X = np.random.default_rng(5).normal(size=(STEPS * BATCH, 6)).astype("float32")
Y = X.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    with dtf.Cluster(jobs={"ps": 1, "worker": 2}, threads_per_host=2) as made:
        yield made
    session().close()


class Held(keras.callbacks.Callback):
    """A callback that holds the chief in the middle of the second epoch, but only the first time, until it is killed or
    has to continue without another task.
    """

    def __init__(self, mark: Path) -> None:
        super().__init__()
        self.mark, self.epoch = mark, 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if (self.epoch, batch) == (1, 4) and not self.mark.exists():
            self.mark.touch()
            print("held")
            ctx = current()
            while not ctx.going_over.is_called:
                ctx.stop_requested.wait(0.01)


def model() -> Any:
    keras.utils.set_random_seed(3)
    made = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)])
    made.compile("adam", "mse")
    return made


def fit(cluster: dtf.Cluster, strategy: str, **arguments: Any) -> Any:
    jobs = {"worker": 2, "ps": 1} if strategy == "ps" else {"worker": 2}
    told: dict[str, Any] = {"batch_size": BATCH, "epochs": EPOCHS, "threads_per_task": 1, "verbose": 0, "wait": False}
    return cluster.fit(model(), X, Y, strategy=strategy, jobs=jobs, **told, **arguments)


def killed_in_the_second_epoch(run: Any, mark: Path, victim: str = "worker:1") -> Any:
    run.wait_for(lambda info: info.state.is_final or (mark.exists() and "held" in run.logs()), left_s())
    (pid,) = [task.pid for task in run.info.tasks if task.task == victim]
    os.kill(pid, signal.SIGKILL)
    run.result(left_s())
    return run


@pytest.mark.parametrize(
    ("strategy", "checkpoint"),
    [
        ("allreduce", dtf.Checkpoint(every_steps=8)),  # resumes in the first epoch, which already has a row
        ("mirrored", dtf.Checkpoint(every_steps=11)),
        ("ps", None),  # starts over
    ],
    ids=["allreduce", "mirrored", "ps"],
)
def test_what_they_write_is_that_of_one_training(
    cluster: dtf.Cluster, tmp_path: Path, strategy: str, checkpoint: Any
) -> None:
    callbacks = [
        keras.callbacks.ModelCheckpoint(tmp_path / "models" / "{epoch}.keras"),
        keras.callbacks.CSVLogger(tmp_path / "log.csv"),
        Held(tmp_path / "mark"),
    ]
    (tmp_path / "models").mkdir()
    run = fit(cluster, strategy, callbacks=callbacks, checkpoint=checkpoint)
    # An asynchronous worker does not wait for the chief, and may have ended.
    killed_in_the_second_epoch(run, tmp_path / "mark", "worker:0" if strategy == "ps" else "worker:1")
    with (tmp_path / "log.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["epoch"]) for row in rows] == [0, 1, 2]
    assert [float(row["loss"]) for row in rows] == pytest.approx(run.history["loss"], rel=1e-6)
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == ["1.keras", "2.keras", "3.keras"]
    kept = keras.models.load_model(tmp_path / "models" / "3.keras")
    for saved, trained in zip(kept.get_weights(), run.model.get_weights(), strict=True):
        if strategy != "ps":  # with ps, other workers continue while the chief saves
            np.testing.assert_allclose(saved, trained, rtol=1e-6)


@pytest.mark.parametrize("strategy", ["allreduce", "mirrored"])
def test_a_backup_of_keras_is_gone_on_from_where_there_is_no_checkpoint(
    cluster: dtf.Cluster, tmp_path: Path, strategy: str
) -> None:
    callbacks = [keras.callbacks.BackupAndRestore(tmp_path / "backup"), Held(tmp_path / "mark")]
    run = killed_in_the_second_epoch(
        fit(cluster, strategy, callbacks=callbacks, checkpoint=False, shuffle=False), tmp_path / "mark"
    )
    assert [task.attempt for task in run.info.tasks] == [1, 1]
    whole = fit(cluster, strategy, checkpoint=False, shuffle=False)
    whole.result(left_s())
    for again, at_once in zip(run.model.get_weights(), whole.model.get_weights(), strict=True):
        np.testing.assert_allclose(again, at_once, rtol=1e-4, atol=1e-6)
    assert not list((tmp_path / "backup").glob("*"))
