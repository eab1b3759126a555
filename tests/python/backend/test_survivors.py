"""Workers of a training killed on a real cluster: the others go on in their processes, and no step is lost."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import cloudpickle
import keras
import numpy as np
import pytest
from sklearn.datasets import load_digits

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.events import AnyEvent, Note, RunChanged
from jupyter_dtf.schema.run import TaskState

from ..patience import left_s

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])

X, Y = load_digits(return_X_y=True)
X, Y = X[:360].astype("float32") / 16, Y[:360]
BATCH, EPOCHS = 30, 3
STEPS = len(X) // BATCH


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    """Three workers of one thread each."""
    with dtf.Cluster(jobs={"worker": 3}, name="survivors", threads_per_host=3) as shared:
        yield shared
    session().close()


def model() -> Any:
    keras.utils.set_random_seed(3)
    layers = [keras.Input((64,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.2)]
    made = keras.Sequential([*layers, keras.layers.BatchNormalization(), keras.layers.Dense(10)])
    made.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return made


class Dies(keras.callbacks.Callback):
    """Kills tasks after steps, which are counted over all epochs: ``{attempt: {task: step}}``; or at ``when``."""

    run_on_all_tasks = True

    def __init__(self, deaths: dict[int, dict[str, int]], when: str = "step") -> None:
        super().__init__()
        self.deaths = deaths
        self.when = when
        self.steps = 0
        self.pids: list[int] = []

    def on_train_begin(self, logs: Any = None) -> None:
        self.pids.append(os.getpid())

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.steps += 1
        self._look("step")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._look("epoch")

    def on_test_begin(self, logs: Any = None) -> None:
        self._look("validation")

    def _look(self, when: str) -> None:
        from jupyter_dtf.backend.task.context import current

        ctx = current()
        if when == self.when and self.deaths.get(ctx.attempt, {}).get(ctx.task) == self.steps:
            os.kill(os.getpid(), signal.SIGKILL)


def fit(cluster: dtf.Cluster, workers: int, deaths: Any = None, when: str = "step", **options: Any) -> Any:
    return cluster.fit(
        model(),
        X,
        Y,
        batch_size=BATCH,
        epochs=EPOCHS,
        verbose=0,
        jobs={"worker": workers},
        threads_per_task=1,
        **{"callbacks": [Dies(deaths or {}, when)], "checkpoint": False, "wait": False, **options},
    )


@pytest.fixture(scope="module")
def whole(cluster: dtf.Cluster) -> dict[int, Any]:
    """Trainings in which nothing happens, by the number of workers."""
    runs = {workers: fit(cluster, workers) for workers in (2, 3)}
    for run in runs.values():
        run.result(left_s())
    return runs


def events(run: dtf.Run) -> list[AnyEvent]:
    return [event for _seq, event in session().hub.events(run.id)]


def notes(run: dtf.Run) -> list[Note]:
    return [event for event in events(run) if isinstance(event, Note)]


def states(run: dtf.Run) -> list[str]:
    return [event.state.value for event in events(run) if isinstance(event, RunChanged)]


def pids(run: dtf.Run) -> dict[str, set[int]]:
    """Every process that each task has ever had."""
    found: dict[str, set[int]] = {}
    for event in events(run):
        if event.__class__.__name__ == "TaskChanged" and event.pid:
            found.setdefault(event.task, set()).add(event.pid)
    return found


def assert_equal(run: Any, other: Any, *, but: str = "moving") -> None:
    for variable, theirs in zip(run.model.weights, other.model.weights, strict=True):
        if but not in variable.path:
            np.testing.assert_array_equal(variable.numpy(), theirs.numpy(), err_msg=variable.path)


def assert_no_step_twice(run: dtf.Run) -> None:
    found = run.metrics.query("metric == 'loss'")
    for task, own in found.groupby("task"):
        steps = own["step"].tolist()
        assert steps == sorted(set(steps)), task


@pytest.mark.parametrize(
    ("workers", "deaths"),
    [(2, {1: {"worker:1": STEPS + 5}}), (3, {1: {"worker:0": 5}})],
    ids=["a worker", "the chief"],
)
def test_the_others_go_on_in_their_processes(
    cluster: dtf.Cluster, whole: dict[int, Any], workers: int, deaths: dict[int, dict[str, int]]
) -> None:
    run = fit(cluster, workers, deaths)
    run.result(left_s())
    for note in notes(run):
        print(note.title, "|", note.text)
    print(states(run), pids(run))
    (lost,) = deaths[1]
    assert states(run) == ["launching", "running", "restarting", "running", "succeeded"]
    assert {task: len(found) for task, found in pids(run).items()} == {
        f"worker:{index}": 1 + (f"worker:{index}" == lost) for index in range(workers)
    }
    assert_equal(run, whole[workers])
    assert_no_step_twice(run)
