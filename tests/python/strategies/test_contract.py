"""The tests that every strategy must pass, all on the same real cluster."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import numpy as np
import psutil
import pytest
from sklearn.datasets import load_digits

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session
from jupyter_dtf.errors import RunFailed
from jupyter_dtf.schema.run import RunState, TaskState

from ..patience import left_s

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])

EXAMPLES, BATCH, EPOCHS = 203, 20, 2
"""The last of 11 batches has 3 examples, which cannot be divided evenly among the tasks."""
STEPS = EPOCHS * 11

SYNCHRONOUS = {
    "allreduce": dtf.AllReduce(),
    "allreduce, tcp": dtf.AllReduce(transport="tcp"),
    "allreduce, ring": dtf.AllReduce(transport="ring"),
    "ps, sync": dtf.ParameterServer(sync=True),
    "mirrored": dtf.InGraph(),
    "pipeline": dtf.Pipeline(
        {"hidden": "/job:worker/task:0/device:CPU:0", "out": "/job:worker/task:1/device:CPU:0"}, microbatches=4
    ),
}
APART = {
    "ps": dtf.ParameterServer(),
    "ps, bounded staleness": dtf.ParameterServer(max_staleness=1),
    "ps, backup worker": dtf.ParameterServer(sync=True, backup_workers=1),
}
"""Strategies under which a worker that dies is restarted alone."""
ALL = {**SYNCHRONOUS, **APART}

every = pytest.mark.parametrize("strategy", ALL.values(), ids=ALL.keys())


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    with dtf.Cluster(jobs={"worker": 2, "ps": 1}, name="every", threads_per_host=2) as cluster:
        yield cluster
    session().close()


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any]:
    x, y = load_digits(return_X_y=True)
    return (x[:EXAMPLES] / 16).astype(np.float32), y[:EXAMPLES].astype(np.int64)


def model(learning_rate: float = 0.1) -> Any:
    """Return a 64-16-10 network, compiled with momentum. Its initial weights are always the same."""
    import keras

    keras.utils.set_random_seed(3)
    network = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(16, activation="tanh", name="hidden"),
            keras.layers.Dense(10, name="out"),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(optimizer=keras.optimizers.SGD(learning_rate, momentum=0.9), loss=loss, metrics=["accuracy"])
    return network


def no_task_is_left(run: dtf.Run) -> None:
    assert all(task.state.is_final for task in run.info.tasks)
    for task in run.info.tasks:
        assert not psutil.pid_exists(task.pid)


COMPARED: dict[str, Any] = {"batch_size": BATCH, "epochs": EPOCHS, "shuffle": False, "validation_split": 0.1}


@pytest.fixture(scope="module")
def alone(data: tuple[Any, Any]) -> Any:
    """Return the model as trained by one process."""
    made = model()
    made.fit(*data, verbose=0, **COMPARED)
    return made


@pytest.mark.parametrize("strategy", SYNCHRONOUS.values(), ids=SYNCHRONOUS.keys())
def test_weights_are_those_of_one_process(
    cluster: dtf.Cluster, data: tuple[Any, Any], alone: Any, strategy: Any
) -> None:
    trained = model()
    trained.evaluate(*data, verbose=0)  # earlier values of its metrics are not in the history
    expected = alone.history.history
    run = cluster.fit(trained, *data, strategy=strategy, **COMPARED)
    for ours, theirs in zip(trained.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-6)
    for ours, theirs in zip(trained.optimizer.variables, alone.optimizer.variables, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-4, atol=2e-6)
    assert set(run.history.history) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(run.history.history[name], values, rtol=1e-3, atol=1e-5)
    no_task_is_left(run)


@pytest.mark.parametrize("strategy", SYNCHRONOUS.values(), ids=SYNCHRONOUS.keys())
def test_callbacks_get_the_logs_of_whole_batches(cluster: dtf.Cluster, data: tuple[Any, Any], strategy: Any) -> None:
    """Callbacks need these logs, for example to stop at a certain loss or to find a learning rate."""
    import keras

    class Heard(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.logs: list[dict[str, float]] = []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.logs.append(dict(logs))

    ours, theirs = Heard(), Heard()
    model().fit(*data, verbose=0, callbacks=[theirs], **COMPARED)
    run = cluster.fit(model(), *data, strategy=strategy, callbacks=[ours], **COMPARED)
    assert len(ours.logs) == len(theirs.logs)
    for our, their in zip(ours.logs, theirs.logs, strict=True):
        assert our == pytest.approx(their, rel=1e-3, abs=1e-5)
    plotted = run.metrics.query("metric == 'loss' and step == 1")["value"]  # of each task's share
    assert plotted.nunique() == len(plotted)
    no_task_is_left(run)


@every
def test_it_learns_from_data_that_do_not_divide_and_tells_every_step(
    cluster: dtf.Cluster, data: tuple[Any, Any], strategy: Any
) -> None:
    trained = model()
    untrained = trained.evaluate(*data, verbose=0)[0]
    run = cluster.fit(trained, *data, strategy=strategy, batch_size=BATCH, epochs=EPOCHS)
    assert trained.evaluate(*data, verbose=0)[0] < 0.8 * untrained
    assert run.info.state is RunState.SUCCEEDED
    assert {task.state for task in run.info.tasks} == {TaskState.SUCCEEDED}
    losses = run.metrics.query("metric == 'loss'")
    for _task, points in losses.groupby("task"):
        assert points["step"].is_monotonic_increasing
    chiefs = losses[losses["task"] == "worker:0"]
    if getattr(strategy, "backup_workers", 0):  # the chief, too, may miss a step
        assert chiefs["step"].iloc[-1] <= STEPS
    else:
        assert chiefs["step"].tolist() == list(range(1, STEPS + 1))
    epochs = run.metrics.query("metric == 'epoch_loss'")
    assert epochs["value"].tolist() == run.history["loss"]
    assert run.info.headline["loss"] == run.history["loss"][-1]
    assert len(run.history.history["loss"]) == EPOCHS
    assert (run.info.progress.epoch, run.info.progress.done) == (EPOCHS, STEPS)
    no_task_is_left(run)


@pytest.mark.parametrize("strategy", SYNCHRONOUS.values(), ids=SYNCHRONOUS.keys())
def test_a_loss_that_becomes_nan_is_told_once_with_its_step_and_task(
    cluster: dtf.Cluster, data: tuple[Any, Any], strategy: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    x = data[0].copy()
    x[3 * BATCH] = np.nan  # in the fourth batch, and in the first task's part of it
    run = cluster.fit(model(), x, data[1], strategy=strategy, batch_size=BATCH, epochs=1, shuffle=False)
    assert run.status == "succeeded"
    sentence = "loss became NaN at step 4 on worker:0"
    assert run.info.not_finite["loss"] == sentence
    assert capsys.readouterr().err.count(sentence) == 1
    assert np.isnan(run.info.headline["loss"]) and repr(run).count(sentence) == 1


@every
def test_a_run_that_is_stopped_keeps_what_it_has_learnt(
    cluster: dtf.Cluster, data: tuple[Any, Any], strategy: Any
) -> None:
    trained = model(0.01)
    before = trained.get_weights()
    run = cluster.fit(trained, *data, strategy=strategy, batch_size=BATCH, epochs=100_000, wait=False)
    until_first_point(run)
    run.stop()
    run.wait(left_s())
    assert run.info.state is RunState.STOPPED
    assert not any(task.signal for task in run.info.tasks), run.info.tasks  # each ended by itself
    run.finish()
    assert any((now != then).any() for now, then in zip(trained.get_weights(), before, strict=True))
    no_task_is_left(run)


def until_first_point(run: dtf.Run) -> None:
    """Wait until training has made a step and the run is running. With backup workers, a step may come first."""
    changed = threading.Event()
    unsubscribe = run._session.hub.subscribe(lambda _: changed.set())
    while not (run.info.latest and run.info.state is RunState.RUNNING):
        assert not run.info.state.is_final, run.info
        assert changed.wait(left_s()), run.info
        changed.clear()
    unsubscribe()


def failing_data(task: str) -> Callable[[Any], Any]:
    def data_fn(ctx: Any) -> Any:
        import tensorflow as tf

        def examples() -> Any:
            for number in range(1_000):
                if number == 3 and ctx.task == task:
                    raise ValueError(f"no more examples on {task}")
                yield np.zeros((4, 64), np.float32), np.zeros(4, np.int64)

        signature = (tf.TensorSpec((None, 64), tf.float32), tf.TensorSpec((None,), tf.int64))
        return tf.data.Dataset.from_generator(examples, output_signature=signature)

    return data_fn


@every
def test_the_traceback_of_the_task_that_fails_reaches_the_client(cluster: dtf.Cluster, strategy: Any) -> None:
    # In-graph strategies have a single client, and only its program can fail.
    task = "worker:0" if isinstance(strategy, (dtf.InGraph, dtf.Pipeline)) else "worker:1"
    with pytest.raises(RunFailed, match=f"no more examples on {task}") as failure:
        cluster.fit(model(), failing_data(task), strategy=strategy, steps_per_epoch=1_000, epochs=2)
    assert "raise ValueError" in str(failure.value)
    run = cluster.runs[0]
    states = {info.task: info.state for info in run.info.tasks}
    assert states[task] is TaskState.FAILED
    no_task_is_left(run)


@every
def test_a_task_that_dies_takes_no_other_along_in_silence(
    cluster: dtf.Cluster, data: tuple[Any, Any], strategy: Any
) -> None:
    run = cluster.fit(
        model(0.01), *data, strategy=strategy, batch_size=BATCH, epochs=100_000, restart=False, wait=False
    )
    until_first_point(run)
    victim = next(task for task in run.info.tasks if task.task == "worker:1")
    psutil.Process(victim.pid).kill()
    run.wait(left_s())
    assert run.info.state is RunState.FAILED
    assert "worker:1 died (SIGKILL)" in run.info.message
    no_task_is_left(run)


def until_trained(run: dtf.Run, attempt: int) -> None:
    """Wait until an attempt has reported a loss, or the run has ended. If neither happens, fail and show the run."""

    def has_trained() -> bool:
        points = run.metrics
        return attempt in points.attempt[points.metric == "loss"].values

    try:
        run.wait_for(lambda info: info.state.is_final or has_trained(), left_s())
    except TimeoutError:
        last = run.metrics.groupby(["task", "attempt"]).agg({"step": "max", "time": "max"})
        pytest.fail(f"Attempt {attempt} has not trained at {time.time():.0f}:\n{run.info}\n{last}\n{run.logs()}")


VICTIMS = [(name, "worker:1") for name in ALL] + [("ps", "ps:0"), ("pipeline", "worker:0"), ("allreduce", "worker:0")]


@pytest.mark.parametrize(("strategy", "victim"), VICTIMS, ids=[f"{name}, {victim}" for name, victim in VICTIMS])
def test_a_training_whose_task_dies_is_started_again_and_trains(
    cluster: dtf.Cluster, data: tuple[Any, Any], strategy: str, victim: str
) -> None:
    trained_by: Any = ALL[strategy]
    run = cluster.fit(model(0.01), *data, strategy=trained_by, batch_size=BATCH, epochs=100_000, wait=False)
    until_first_point(run)
    (pid,) = [task.pid for task in run.info.tasks if task.task == victim]
    psutil.Process(pid).kill()
    alone = strategy in APART and victim == "worker:1"
    again = {victim} if alone else {task.task for task in run.info.tasks}
    run.wait_for(lambda i: i.state.is_final or all(t.attempt == 1 for t in i.tasks if t.task in again), left_s())
    assert not run.info.state.is_final, run.info
    assert {task.task for task in run.info.tasks if task.attempt} == again
    until_trained(run, 1)
    assert (run.status, run.info.message) == ("running", "" if alone else "attempt 2 of 4")
    run.stop()
    assert run.wait(left_s()).info.state is RunState.STOPPED
    no_task_is_left(run)
