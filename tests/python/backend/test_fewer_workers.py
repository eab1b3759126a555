"""When hosts of a real cluster are killed and there is no room for their workers, training continues with fewer."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import keras
import numpy as np
import psutil
import pytest
from sklearn.datasets import load_digits

import jupyter_dtf as dtf
from jupyter_dtf.backend.viewer import connections
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.events import AnyEvent, Note, RunChanged
from jupyter_dtf.schema.run import TaskState

from ..clusters import wait_for
from ..patience import left_s, until
from .test_restart import dask_worker

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])

X, Y = load_digits(return_X_y=True)
X, Y = X[:360].astype("float32") / 16, Y[:360]
BATCH, EPOCHS = 30, 2
STEPS = EPOCHS * len(X) // BATCH
EXAMPLES, COUNTED_STEPS, HELD = 600, 50, 20
LOOK_S = 0.01


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    """A cluster of three hosts with one thread each."""
    with dtf.Cluster(jobs={"worker": 2, "ps": 1}, name="fewer", hosts=3, threads_per_host=1) as shared:
        yield shared
    session().close()


def events(run: dtf.Run) -> list[AnyEvent]:
    return [event for _seq, event in session().hub.events(run.id)]


def states(run: dtf.Run) -> list[str]:
    return [event.state.value for event in events(run) if isinstance(event, RunChanged)]


def titles(run: dtf.Run) -> list[str]:
    return [event.title for event in events(run) if isinstance(event, Note)]


def lose_host(cluster: dtf.Cluster, run: dtf.Run, task: str) -> psutil.Process:
    """Kill the host of a task. Return the process by which its nanny replaces it, suspended until it is resumed."""
    (host,) = [info.host for info in run.info.tasks if info.task == task]
    nannies = psutil.Process(connections.read(cluster.name).pid)
    before = set(nannies.children())
    dask_worker(cluster, host).kill()
    until(lambda: set(nannies.children()) - before, lambda: (run, titles(run)))
    (other,) = set(nannies.children()) - before
    other.suspend()
    return other


def until_it(run: dtf.Run, condition: Callable[[], object]) -> None:
    until(lambda: condition() or run.info.state.is_final, lambda: (run, titles(run)))
    assert condition(), (run, titles(run))


# -- asynchronous workers ------------------------------------------------------------------------------------------


class Holds(keras.callbacks.Callback):
    """Stops ``worker:1`` in the middle of an epoch, where it creates the file ``held``.

    Its next process creates ``back``. The chief waits until the test has created ``on``, after the first process is
    lost, and, with ``comes``, for ``back``.
    """

    run_on_all_tasks = True

    def __init__(self, directory: Path, *, comes: bool) -> None:
        super().__init__()
        self.held, self.on, self.back = directory / "held", directory / "on", directory / "back"
        self.comes = comes

    def on_train_begin(self, logs: Any = None) -> None:
        from jupyter_dtf.backend.task.context import current

        if current().rejoins:
            self.back.touch()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        from jupyter_dtf.backend.task.context import current

        ctx = current()
        if batch < HELD or ctx.rejoins:
            return
        if not ctx.is_chief:
            self.held.touch()
            threading.Event().wait()
        while not (self.on.exists() and (self.back.exists() or not self.comes)):
            time.sleep(LOOK_S)


def counter() -> Any:
    """Return a model that counts how often it has seen each example."""
    embedding = keras.layers.Embedding(EXAMPLES, 1, embeddings_initializer="zeros")
    model = keras.Sequential([keras.Input((), dtype="int32"), embedding])
    model.compile(keras.optimizers.SGD(1.0), lambda _, seen: -seen)
    return model


@pytest.mark.parametrize("comes", [False, True], ids=["for good", "until there is room"])
def test_workers_that_are_apart_go_on_without_one(cluster: dtf.Cluster, tmp_path: Path, comes: bool) -> None:
    wait_for(cluster, lambda info: len(info.hosts) == 3)
    holds = Holds(tmp_path, comes=comes)
    numbers = np.arange(EXAMPLES, dtype="int32")
    run = cluster.fit(
        counter,
        numbers,
        numbers,
        batch_size=EXAMPLES // COUNTED_STEPS,
        strategy="ps",
        epochs=2,
        callbacks=[holds],
        check=False,
        checkpoint=False,
        restart=dtf.Restart(min_workers=1),
        wait=False,
    )
    until_it(run, holds.held.exists)
    other = lose_host(cluster, run, "worker:1")
    until_it(run, lambda: "There is no room for worker:1" in titles(run))
    holds.on.touch()
    if not comes:
        run.result(left_s())
    other.resume()
    run.result(left_s())

    assert states(run) == ["launching", "running", "succeeded"]
    updates = {task: found["applied"] for task, found in run.updates.items()}
    seen = run.model.get_weights()[0][:, 0] * (EXAMPLES // COUNTED_STEPS // 2)
    tasks = {task.task: (task.state, task.attempt) for task in run.info.tasks}
    assert updates["worker:0"] == 2 * COUNTED_STEPS
    if comes:
        assert updates["worker:1"] == 2 * COUNTED_STEPS
        assert np.round(seen).astype(int).tolist() == [2] * EXAMPLES
        assert tasks["worker:1"] == (TaskState.SUCCEEDED, 2)
        assert "There is room for worker:1 again" in titles(run)
        assert "worker:1 is restarted: attempt 3 of 5" in titles(run)
    else:
        assert updates["worker:1"] == HELD + 1
        assert round(seen.sum()) == (2 * COUNTED_STEPS + HELD + 1) * (EXAMPLES // COUNTED_STEPS // 2)
        assert tasks["worker:1"] == (TaskState.FAILED, 1)


# -- all other strategies ------------------------------------------------------------------------------------------


class Waits(keras.callbacks.Callback):
    """Records the tasks of each attempt, on the chief.

    The first attempt waits after five steps until it is ended. The second, which has fewer tasks, trains a step, and
    then waits until it is asked to stop so that the run can grow.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        from jupyter_dtf.backend.task.context import current

        ctx = current()
        if (ctx.attempt, batch) == (1, 4):
            self.said(1).write_text(" ".join(ctx.tasks))
            threading.Event().wait()
        elif ctx.attempt == 2:
            self.said(2).write_text(" ".join(ctx.tasks))
            ctx.stop_requested.wait()
        elif ctx.attempt == 3:
            self.said(3).write_text(" ".join(ctx.tasks))

    def said(self, attempt: int) -> Path:
        return self.directory / f"attempt {attempt}"


def plain_model() -> Any:
    keras.utils.set_random_seed(5)
    hidden = keras.layers.Dense(16, activation="relu", name="hidden")
    made = keras.Sequential([keras.Input((64,)), hidden, keras.layers.Dense(10, name="scores")])
    made.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return made


@pytest.mark.parametrize(
    ("strategy", "jobs", "lost"),
    [
        pytest.param(dtf.ParameterServer(sync=True), {"worker": 2, "ps": 1}, "worker:1", marks=pytest.mark.extended),
        (dtf.ParameterServer(sync=True), {"worker": 2, "ps": 1}, "ps:0"),
        (dtf.InGraph(), {"worker": 3}, "worker:0"),
    ],
    ids=["synchronous", "its server", "in one graph"],
)
def test_a_gang_begins_again_with_fewer_workers_from_its_checkpoint(
    cluster: dtf.Cluster, tmp_path: Path, strategy: Any, jobs: dict[str, int], lost: str
) -> None:
    wait_for(cluster, lambda info: len(info.hosts) == 3)
    missing = ["worker:0" if lost == "worker:0" else "worker:1"]
    shrinks_and_grows(cluster, tmp_path, strategy, jobs, lost=lost, missing=missing)


def test_a_pipeline_goes_on_with_the_copies_for_which_there_is_room(tmp_path: Path) -> None:
    first, second = (f"/job:worker/task:{index}/device:CPU:0" for index in range(2))
    strategy = dtf.Pipeline({"hidden": first, "scores": second}, microbatches=2, replicas=2)
    with dtf.Cluster(4, name="copies", hosts=4, threads_per_host=1) as cluster:
        wait_for(cluster, lambda info: len(info.hosts) == 4)
        # There is room for three tasks, of which two form a copy.
        missing = ["worker:0", "worker:1"]
        shrinks_and_grows(cluster, tmp_path, strategy, {"worker": 4}, lost="worker:0", missing=missing)


def shrinks_and_grows(
    cluster: dtf.Cluster, directory: Path, strategy: Any, jobs: dict[str, int], *, lost: str, missing: list[str]
) -> None:
    """Train, lose the host of a task, so that some tasks are missing, and get it back."""
    waits = Waits(directory)
    run = cluster.fit(
        plain_model(),
        X,
        Y,
        batch_size=BATCH,
        epochs=EPOCHS,
        shuffle=False,
        strategy=strategy,
        jobs=jobs,
        callbacks=[waits],
        checkpoint=dtf.Checkpoint(every_steps=2),
        restart=dtf.Restart(min_workers=1),
        wait=False,
    )
    until_it(run, waits.said(1).exists)
    other = lose_host(cluster, run, lost)
    until_it(run, lambda: waits.said(2).exists() and run.info.state.value == "running")
    assert f"There is no room for {' and '.join(missing)}" in titles(run)
    assert {task.task for task in run.info.tasks if task.state is TaskState.FAILED} == set(missing)
    other.resume()
    run.result(left_s())
    run.finish()

    assert f"There is room for {' and '.join(missing)} again" in titles(run)
    began = ["launching", "running", "restarting", "running"]
    assert states(run) == [*began, "pausing", "paused", "restarting", "running", "succeeded"]
    tasks = waits.said(1).read_text().split()
    assert waits.said(2).read_text().split() == [task for task in tasks if task not in missing]
    assert waits.said(3).read_text().split() == tasks
    assert {task.state for task in run.info.tasks} == {TaskState.SUCCEEDED}
    told = run.metrics.query("metric == 'learning_rate' and attempt > 0")
    chiefs = told[told.task == np.where(told.attempt == 1, waits.said(2).read_text().split()[0], tasks[0])]
    done = sorted(chiefs.step)
    assert done == [float(step) for step in range(int(done[0]), STEPS + 1)], "no step is done twice as it grows"
    assert done[0] <= 5
    alone = plain_model()
    alone.fit(X, Y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0)
    for ours, theirs in zip(run.model.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_the_model_of_a_training_whose_first_worker_stays_away_comes_home(cluster: dtf.Cluster, tmp_path: Path) -> None:
    wait_for(cluster, lambda info: len(info.hosts) == 3)
    waits = Waits(tmp_path)
    model = plain_model()
    run = cluster.fit(
        model,
        X,
        Y,
        batch_size=BATCH,
        epochs=EPOCHS,
        shuffle=False,
        strategy=dtf.ParameterServer(sync=True),
        callbacks=[waits],
        checkpoint=dtf.Checkpoint(every_steps=2),
        restart=dtf.Restart(max_restarts=1, min_workers=1),
        wait=False,
    )
    until_it(run, waits.said(1).exists)
    other = lose_host(cluster, run, "worker:0")
    until_it(run, waits.said(2).exists)
    run.stop()
    run.wait(left_s())
    other.resume()
    run.finish()
    assert run.status == "stopped"
    step = run.checkpoints[-1].step
    alone = plain_model()
    alone.fit(X[: step * BATCH], Y[: step * BATCH], batch_size=BATCH, shuffle=False, verbose=0)
    for ours, theirs in zip(model.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
