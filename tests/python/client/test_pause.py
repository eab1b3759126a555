"""Tests of runs that are paused and continued, or stopped with a checkpoint, with every strategy."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import keras
import numpy as np
import psutil
import pytest
from sklearn.datasets import load_digits

import jupyter_dtf as dtf
from jupyter_dtf import cli
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.events import Note, RunChanged

from ..patience import left_s, until

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])

X, Y = load_digits(return_X_y=True)
X, Y = X[:300].astype("float32") / 16, Y[:300]
WORKERS = {"worker": 2}
SERVED = {"worker": 2, "ps": 1}
PLACES = {"dense": "/job:worker/task:0/device:CPU:0", "out": "/job:worker/task:1/device:CPU:0"}
STRATEGIES: dict[str, dict[str, Any]] = {
    "allreduce": {"jobs": WORKERS},
    "mirrored": {"strategy": "mirrored", "jobs": WORKERS},
    "pipeline": {"strategy": dtf.Pipeline(PLACES), "jobs": WORKERS},
    "ps": {"strategy": dtf.ParameterServer(sync=True), "jobs": SERVED},
    "ps, asynchronous": {"strategy": "ps", "jobs": SERVED},
}


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    with dtf.Cluster(jobs=SERVED) as made:
        yield made
    session().close()


class Slowly(keras.callbacks.Callback):
    """A callback that slows down training, so that a pause comes before the end."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        threading.Event().wait(0.01)


def fit(cluster: dtf.Cluster, **arguments: Any) -> Any:
    keras.utils.set_random_seed(3)
    layers = [keras.Input((64,)), keras.layers.Dense(16, activation="relu", name="dense")]
    model = keras.Sequential([*layers, keras.layers.Dense(10, name="out")])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return cluster.fit(model, X, Y, **{"batch_size": 30, "epochs": 3000, "wait": False, **arguments})


def until_step(run: Any, step: int) -> Any:
    run.wait_for(lambda info: info.progress.done >= step, left_s())
    return run


def steps_of(run: Any) -> list[int]:
    """Return the steps that the chief has reported. A step that a later attempt has repeated is contained once."""
    frame = run.metrics.query("metric == 'loss' and task == 'worker:0'")
    return [int(step) for step in frame["step"]]


def states_of(run: Any) -> list[str]:
    events = (event for _seq, event in session().hub.events(run.id))
    return [event.state.value for event in events if isinstance(event, RunChanged)]


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_stop_and_a_pause_leave_a_checkpoint_of_the_last_step(cluster: dtf.Cluster, name: str) -> None:
    # Epochs never reach a multiple of 10,000, so that the only checkpoints are those of the pause and the stop.
    run = until_step(fit(cluster, checkpoint=dtf.Checkpoint(every_epochs=10_000), **STRATEGIES[name]), 5)
    pids = [task.pid for task in run.info.tasks]
    run.pause()
    info = run.wait_for(lambda info: info.state.value == "paused", left_s())
    paused = run.checkpoints[-1].step
    assert info.checkpoint is not None
    assert (paused, info.checkpoint.step) == (steps_of(run)[-1], paused)
    assert info.message == f"after step {paused}"
    until(lambda: not any(map(psutil.pid_exists, pids)), f"the end of {pids}")
    run.continue_()
    until_step(run, paused + 5)
    assert run.info.message == "attempt 2 of 5"
    run.stop()
    run.wait(left_s())
    assert run.status == "stopped"
    steps = steps_of(run)
    assert steps == list(range(1, run.checkpoints[-1].step + 1))
    assert states_of(run)[1:] == ["running", "pausing", "paused", "restarting", "running", "stopping", "stopped"]


def test_a_pause_changes_nothing_of_what_is_learnt(cluster: dtf.Cluster) -> None:
    whole = fit(cluster, epochs=20, jobs=WORKERS, wait=True)
    run = until_step(fit(cluster, epochs=20, jobs=WORKERS, callbacks=[Slowly()]), 33)
    assert cli.main(["pause", run.id]) == 0
    run.wait_for(lambda info: info.state.value == "paused", left_s())
    assert cli.main(["continue", run.id]) == 0
    assert run.result(left_s())["loss"] == pytest.approx(whole.history["loss"], rel=1e-5)
    for ours, theirs in zip(run.model.get_weights(), whole.model.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_what_is_paused_can_be_stopped_and_resumed(cluster: dtf.Cluster) -> None:
    run = until_step(fit(cluster, jobs=WORKERS), 5)
    with pytest.raises(dtf.Conflict, match=f"A run must be paused to be continued, but {run.id} is running"):
        run.continue_()
    run.pause()
    with pytest.raises(dtf.Conflict, match="A run must be running to be paused"):
        run.pause()
    run.wait_for(lambda info: info.state.value == "paused", left_s())
    run.stop()
    run.wait(left_s())
    assert run.info.checkpoint is not None
    step = run.info.checkpoint.step
    assert run.info.message == f"stopped while it was paused after step {step}"
    with pytest.raises(dtf.Conflict, match="Only an active run can be paused"):
        run.pause()
    again = until_step(run.resume(wait=False), step + 1)
    again.stop(now=True)
    again.wait(left_s())


def waits(_args: object, ctx: Any) -> None:
    ctx.stop_requested.wait()


@pytest.mark.parametrize("what", ["a program", "without checkpoints"])
def test_what_cannot_be_paused_is_refused(cluster: dtf.Cluster, what: str) -> None:
    run: Any
    if what == "a program":
        run = cluster.run(waits, wait=False, jobs={"worker": 1})
    else:
        run = fit(cluster, checkpoint=False, jobs=WORKERS)
    run.wait_for(lambda info: info.state.value == "running", left_s())
    with pytest.raises(
        dtf.Conflict, match="must write checkpoints to be paused, as training does unless checkpoint=False"
    ):
        run.pause()
    run.stop(now=True)
    run.wait(left_s())


class Held:
    """An object whose pickling waits until a file named ``go`` exists."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __reduce__(self) -> Any:
        (self.directory / "begun").touch()
        while not (self.directory / "go").exists():
            threading.Event().wait(0.01)
        return Held, (self.directory,)


def saves(directory: str, ctx: Any) -> None:
    ctx.checkpoint(1, {"held": Held(Path(directory))})


@pytest.mark.parametrize("how", ["a grace that ends", "now"])
def test_a_stop_does_not_cut_a_checkpoint_unless_it_is_to(cluster: dtf.Cluster, tmp_path: Path, how: str) -> None:
    run = cluster.run(saves, str(tmp_path), jobs={"worker": 1}, stop_grace_s=0.1, wait=False)
    until((tmp_path / "begun").exists, "the checkpoint")
    run.stop(now=how == "now")
    if how == "a grace that ends":
        told = "A checkpoint is being written"
        run.wait_for(lambda _: any(isinstance(e, Note) and e.title == told for _, e in events(run)), left_s())
        (tmp_path / "go").touch()
    run.wait(left_s())
    assert run.status == "stopped"
    assert [info.step for info in run.checkpoints] == ([1] if how == "a grace that ends" else [])
    directory = Path(run.info.run_dir) / "checkpoints"
    assert (directory / "1" / "manifest.json").exists() == (how == "a grace that ends")


def events(run: Any) -> list[tuple[int, Any]]:
    return session().hub.events(run.id)
