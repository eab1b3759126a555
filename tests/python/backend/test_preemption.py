"""Dask workers of a real cluster that receive a preemption signal for their machine in the middle of a training."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import keras
import numpy as np
import pytest
from sklearn.datasets import load_digits

import jupyter_dtf as dtf
from jupyter_dtf.backend.machine.processes import stat_of
from jupyter_dtf.client.session import session

from ..clusters import wait_for
from ..patience import left_s, until
from .test_restart import dask_worker, notes, nothing_is_left, states, until_ended

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])

X, Y = load_digits(return_X_y=True)
X, Y = X[:360].astype("float32") / 16, Y[:360]
BATCH, STEPS, AT = 30, 24, 7


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    """Three hosts of two threads each."""
    with dtf.Cluster(jobs={"worker": 3}, name="preempted", hosts=3, threads_per_host=2) as shared:
        yield shared
    session().close()


@pytest.fixture(autouse=True)
def three_hosts(cluster: dtf.Cluster) -> None:
    """Wait until nannies have replaced the hosts that earlier tests have ended."""
    wait_for(cluster, lambda info: len(info.hosts) == 3)


def model() -> Any:
    keras.utils.set_random_seed(5)
    made = keras.Sequential([keras.Input((64,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(10)])
    made.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return made


class Waits(keras.callbacks.Callback):
    """After some steps of the first attempt, creates the file ``here`` and waits for the file ``on``.

    With ``is_asked``, it then also waits until a checkpoint is requested, or the task is asked to stop.
    """

    def __init__(self, here: Path, on: Path, *, is_asked: bool = False) -> None:
        super().__init__()
        self.here, self.on = here, on
        self.is_asked = is_asked
        self.steps = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        from jupyter_dtf.backend.task.context import current

        ctx = current()
        self.steps += 1
        if self.steps == AT and ctx.attempt == 1:
            self.here.touch()
            while not self.on.exists():
                time.sleep(0.01)
            while self.is_asked and not ctx.checkpoint_wanted.is_set() and not ctx.should_stop:
                time.sleep(0.01)


def fit(cluster: dtf.Cluster, **options: Any) -> Any:
    return cluster.fit(
        model(),
        X,
        Y,
        batch_size=BATCH,
        epochs=2,
        shuffle=False,
        verbose=0,
        threads_per_task=1,
        **{"wait": False, "checkpoint": dtf.Checkpoint(every_epochs=1, keep=9), **options},
    )


def assert_weights(run: Any) -> None:
    """Check that the weights are those of training in one process."""
    alone = model()
    alone.fit(X, Y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0)
    for ours, theirs in zip(run.model.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def until_told(run: Any, what: Callable[[str], bool]) -> None:
    until(lambda: any(what(note.title) for note in notes(run)), lambda: (run, notes(run)))


def send(cluster: dtf.Cluster, run: Any, task: str, number: int) -> Any:
    """Send a signal to the Dask worker that runs a task, and return its process."""
    (host,) = [info.host for info in run.info.tasks if info.task == task]
    process = dask_worker(cluster, host)
    process.send_signal(number)
    return process


PS = {"jobs": {"worker": 2, "ps": 1}}
CASES: dict[str, tuple[str, signal.Signals, dict[str, Any]]] = {
    "a worker": ("worker:1", signal.SIGTERM, {}),
    "the chief, by another signal": ("worker:0", signal.SIGUSR1, {}),
    "a server of workers in step": ("ps:0", signal.SIGTERM, {**PS, "strategy": dtf.ParameterServer(sync=True)}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_is_written_first_and_the_training_goes_on_elsewhere(
    cluster: dtf.Cluster, tmp_path: Path, case: str
) -> None:
    task, number, options = CASES[case]
    here, on = tmp_path / "here", tmp_path / "on"
    run = fit(cluster, callbacks=[Waits(here, on, is_asked=True)], **options)
    until(here.exists, lambda: (run, notes(run)))
    before = {info.task: (info.pid, info.host) for info in run.info.tasks}
    gone = send(cluster, run, task, number)
    until_told(run, lambda title: title.endswith(f" is going away ({number.name})"))
    on.touch()
    run.result(left_s())
    (told,) = [note for note in notes(run) if note.title.endswith(f" is going away ({number.name})")]
    assert (told.level, told.mark) == ("warning", "host to go")
    first, *_ = run.checkpoints
    assert AT <= first.step < STEPS / 2  # at the current step, not only at the end of the epoch
    assert states(run)[-2:] == ["running", "succeeded"]
    assert "restarting" in states(run)
    if "ps" not in task:
        (lost,) = [note for note in notes(run) if note.task == task and note.level == "warning"]
        said = rf"{task} has to leave its machine \({number.name}\), after the checkpoint of step (\d+), on host "
        found = re.match(said, lost.title)
        assert found and int(found[1]) in [each.step for each in run.checkpoints], lost
        assert [note for note in notes(run) if note.title.startswith("Training continues after step ")]
    assert not [info for info in run.info.tasks if info.host == before[task][1] and info.pid == before[task][0]]
    assert_weights(run)
    until_ended(gone.pid)
    nothing_is_left(run, cluster)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_host_that_dies_or_freezes_before_it_could_leave_is_a_lost_host(
    cluster: dtf.Cluster, tmp_path: Path, how: signal.Signals
) -> None:
    here, on = tmp_path / "here", tmp_path / "on"
    run = fit(cluster, callbacks=[Waits(here, on)])
    until(here.exists, lambda: (run, notes(run)))
    gone = send(cluster, run, "worker:1", signal.SIGTERM)
    until_told(run, lambda title: title.endswith(" is going away (SIGTERM)"))
    gone.send_signal(how)
    on.touch()
    run.result(left_s())
    assert states(run) == ["launching", "running", "restarting", "running", "succeeded"]
    assert [note for note in notes(run) if note.title.startswith("worker:1 failed: its host ")]
    assert_weights(run)
    until_ended(gone.pid)
    nothing_is_left(run, cluster)


def test_a_host_without_tasks_just_ends_and_another_takes_its_place(cluster: dtf.Cluster) -> None:
    before = {info.address for info in cluster.info.hosts}
    pid = dask_worker(cluster, cluster.info.hosts[0].name).pid
    os.kill(pid, signal.SIGTERM)
    until_ended(pid)
    wait_for(cluster, lambda info: len({host.address for host in info.hosts} - before) == 1)
    assert stat_of(pid) is None or stat_of(pid).has_ended  # type: ignore[union-attr]


def test_a_run_that_cannot_begin_again_goes_on_there_as_long_as_it_can(cluster: dtf.Cluster, tmp_path: Path) -> None:
    here, on = tmp_path / "here", tmp_path / "on"
    run = fit(cluster, callbacks=[Waits(here, on, is_asked=True)], restart=False)
    until(here.exists, lambda: (run, notes(run)))
    gone = send(cluster, run, "worker:1", signal.SIGTERM)
    until_told(run, lambda title: title.endswith(" is going away (SIGTERM)"))
    on.touch()
    run.result(left_s())
    assert states(run) == ["launching", "running", "succeeded"]
    assert "The run has no restarts left" in [note.title for note in notes(run)]
    assert AT <= run.checkpoints[0].step < STEPS / 2
    until_ended(gone.pid)
