"""If workers of a training are killed on a real cluster, the others continue in their processes; no step is lost."""

from __future__ import annotations

import csv
import os
import re
import signal
import sys
import time
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
from jupyter_dtf.backend.viewer import connections
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.events import AnyEvent, Note, RunChanged, TaskChanged
from jupyter_dtf.schema.run import TaskState

from ..clusters import wait_for
from ..patience import left_s, until
from ..tiers import cut
from .test_restart import dask_worker, until_ended

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
    """Kills tasks, ``{attempt: {task: (event, steps)}}``, at an event after that many steps of all epochs."""

    run_on_all_tasks = True

    def __init__(self, deaths: Deaths) -> None:
        super().__init__()
        self.deaths = deaths
        self.steps = 0
        self.epochs = 0

    def on_train_begin(self, logs: Any = None) -> None:
        self._look("begin")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.steps += 1
        self._look("step")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epochs += 1
        self._look("epoch")

    def on_test_begin(self, logs: Any = None) -> None:
        self._look("validation")

    def _look(self, when: str) -> None:
        from jupyter_dtf.backend.task.context import current

        ctx = current()
        if self.deaths.get(ctx.attempt, {}).get(ctx.task) == (when, self.steps):
            os.kill(os.getpid(), signal.SIGKILL)


class Counts(keras.callbacks.Callback):
    """Records the epochs that begin and end, on the chief."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[int] = []
        self.ended: list[int] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.begun.append(epoch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.ended.append(epoch)


Deaths = dict[int, dict[str, tuple[str, int]]]


def fit(cluster: dtf.Cluster, workers: int, deaths: Deaths | None = None, **options: Any) -> Any:
    return cluster.fit(
        model(),
        X,
        Y,
        batch_size=BATCH,
        validation_data=(X[:50], Y[:50]),
        verbose=0,
        jobs={"worker": workers},
        threads_per_task=1,
        **{"epochs": EPOCHS, "callbacks": [Dies(deaths or {})], "checkpoint": False, "wait": False, **options},
    )


@pytest.fixture(scope="module")
def whole(cluster: dtf.Cluster) -> dict[int, Any]:
    """Undisturbed trainings, keyed by the number of workers."""
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
    """Return the ids of all processes that each task has had, keyed by task."""
    found: dict[str, set[int]] = {info.task: set() for info in run.info.tasks}
    for event in events(run):
        if isinstance(event, TaskChanged) and event.pid:
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


LAST = EPOCHS * STEPS
CASES: dict[str, tuple[int, Deaths, Any]] = {
    "a worker of two": (2, {1: {"worker:1": ("step", STEPS + 5)}}, None),
    "the chief": (2, {1: {"worker:0": ("step", 5)}}, None),
    "two of three, by TCP": (
        3,
        {1: {"worker:0": ("step", 7), "worker:2": ("step", 7)}},
        dtf.AllReduce(transport="tcp"),
    ),
    "its successor before it begins": (3, {1: {"worker:1": ("step", 5)}, 2: {"worker:1": ("begin", 0)}}, None),
    "another one later": (3, {1: {"worker:1": ("step", 5)}, 2: {"worker:2": ("step", 9)}}, None),
    "in the last step": (2, {1: {"worker:1": ("step", LAST - 1)}}, None),
    "at the end of the last epoch": (2, {1: {"worker:0": ("epoch", LAST)}}, None),
    "in a validation": (2, {1: {"worker:0": ("validation", STEPS)}}, None),
}


@pytest.mark.parametrize("case", cut(CASES, keep=["two of three, by TCP", "in the last step"]))
def test_the_others_go_on_in_their_processes(cluster: dtf.Cluster, whole: dict[int, Any], case: str) -> None:
    workers, deaths, strategy = CASES[case]
    counts = Counts()
    more = {"strategy": strategy} if strategy else {}
    run = fit(cluster, workers, deaths, callbacks=[Dies(deaths), counts], **more)
    run.result(left_s())
    run.finish()
    assert counts.ended == [*range(EPOCHS)]
    assert sorted(set(counts.begun)) == [*range(EPOCHS)]
    died = [task for attempt in deaths.values() for task in attempt]
    for task, found in pids(run).items():
        # A successor that has not begun yet is restarted if another loss is noticed only then.
        most = 1 + len(died) if task in died else 1
        assert 1 + died.count(task) <= len(found) <= most, task
    assert len(pids(run)) == workers
    assert states(run)[-2:] == ["running", "succeeded"]
    assert_equal(run, whole[workers])
    assert_no_step_twice(run)
    steps = run.metrics.query("metric == 'loss'")["step"]
    assert set(steps) == set(range(1, LAST + 1))
    assert [*run.history["val_loss"]] == pytest.approx([*whole[workers].history["val_loss"]], rel=0.2)
    assert run.history.keys() == whole[workers].history.keys()
    went_on = [note for note in notes(run) if note.title.startswith("Training continues after step")]
    assert went_on and all("No step is lost" in note.text for note in went_on)
    assert not run.checkpoints


def test_what_is_said_of_it(cluster: dtf.Cluster) -> None:
    run = fit(cluster, 2, {1: {"worker:1": ("step", 5)}})
    run.result(left_s())
    assert states(run) == ["launching", "running", "restarting", "running", "succeeded"]
    (lost,) = [note.text for note in notes(run) if note.title == "worker:1 died (SIGKILL)"]
    assert lost.endswith(". worker:0 continues; worker:1 is restarted: attempt 2 of 4")
    (again,) = [note.text for note in notes(run) if note.title == "Restarted: attempt 2 of 4"]
    assert again.endswith("s after worker:1 was lost. worker:0 continued")
    (on,) = [note.text for note in notes(run) if note.title == "Training continues after step 5"]
    where = "From epoch 1, after 5 of its steps, with the state of worker:0. No step is lost. The first step ended "
    assert on.startswith(where) and on.endswith(" after worker:1 was lost")
    assert [task.attempt for task in run.info.tasks] == [1, 1]
    found = run.metrics.query("metric == 'loss'")
    assert set(found[found.attempt == 0]["step"]) == set(range(1, 6))
    assert set(found[found.attempt == 1]["step"]) == set(range(6, LAST + 1))


@pytest.mark.parametrize(
    ("when", "writes"),
    cut(
        [
            (("step", STEPS + 5), "before it dies"),
            (("epoch", STEPS), "before it dies"),
            (("epoch", 2 * STEPS), "after"),
            (("epoch", LAST), "before it dies"),
        ],
        keep=[(("epoch", STEPS), "before it dies")],
    ),
)
def test_a_csv_of_the_epochs_has_each_of_them_once_when_the_chief_dies(
    cluster: dtf.Cluster, tmp_path: Path, when: tuple[str, int], writes: str
) -> None:
    path = tmp_path / "epochs.csv"
    dies, logger = Dies({1: {"worker:0": when}}), keras.callbacks.CSVLogger(str(path))
    run = fit(cluster, 2, callbacks=[logger, dies] if writes == "before it dies" else [dies, logger])
    run.result(left_s())
    assert len(pids(run)["worker:0"]) == 2 and len(pids(run)["worker:1"]) == 1
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == [str(epoch) for epoch in range(EPOCHS)], rows
    assert [float(row["val_loss"]) for row in rows] == pytest.approx([*run.history["val_loss"]])


@pytest.mark.extended
def test_a_step_of_several_passes_is_no_step_to_go_on_from(cluster: dtf.Cluster, whole: dict[int, Any]) -> None:
    strategy = dtf.AllReduce(backward_passes_per_step=2)
    run = fit(cluster, 2, {1: {"worker:1": ("step", 5)}}, strategy=strategy)
    run.result(left_s())
    (lost,) = [note.text for note in notes(run) if note.title == "worker:1 died (SIGKILL)"]
    assert lost.endswith("All tasks are restarted: attempt 2 of 4")
    assert [len(found) for found in pids(run).values()] == [2, 2]


def test_a_run_that_is_stopped_while_others_go_on_stops(cluster: dtf.Cluster) -> None:
    run = fit(cluster, 2, {1: {"worker:1": ("step", 5)}}, epochs=1000)
    run.wait_for(lambda info: info.state.value == "restarting" or info.state.is_final, left_s())
    run.stop(now=True)
    assert run.wait(left_s()).status == "stopped"
    ended = [pid for found in pids(run).values() for pid in found]
    until_ended(*ended)


def own_share(ctx: Any) -> Any:
    import tensorflow as tf

    share = slice(ctx.rank, None, ctx.size)
    return tf.data.Dataset.from_tensor_slices((X[share], Y[share])).batch(BATCH // ctx.size)


def test_a_function_for_data_is_called_again_and_goes_on_after_its_steps(cluster: dtf.Cluster) -> None:
    runs = [
        cluster.fit(
            model(),
            own_share,
            epochs=EPOCHS,
            jobs={"worker": 2},
            threads_per_task=1,
            callbacks=[Dies(deaths)],
            checkpoint=False,
        )
        for deaths in ({}, {1: {"worker:0": ("step", STEPS + 3)}})
    ]
    assert [len(found) for found in pids(runs[1]).values()] == [2, 1]
    assert_equal(*runs)
    assert_no_step_twice(runs[1])


def test_an_execution_of_several_steps_is_done_again_as_a_whole(cluster: dtf.Cluster) -> None:
    """An epoch's last execution has 2 of its 12 steps. One task dies during an execution, the other after the last."""

    def run_of(dies: bool) -> Any:
        def share(ctx: Any) -> Any:
            import tensorflow as tf

            def read(number: Any, *batch: Any) -> Any:
                if dies and (ctx.task, ctx.attempt, int(number)) == ("worker:1", 1, 8):
                    os.kill(os.getpid(), signal.SIGKILL)
                return batch

            kinds = [spec.dtype for spec in own_share(ctx).element_spec]
            shapes = [spec.shape for spec in own_share(ctx).element_spec]

            def looked_at(number: Any, batch: Any) -> Any:
                found = tf.numpy_function(read, [number, *batch], kinds)
                return tuple(tf.ensure_shape(each, shape) for each, shape in zip(found, shapes, strict=True))

            return own_share(ctx).enumerate().map(looked_at)

        made = model()
        made.compile("adam", made.loss, metrics=["accuracy"], steps_per_execution=5)
        return cluster.fit(
            made,
            share,
            epochs=EPOCHS,
            validation_data=(X[:50], Y[:50]),
            jobs={"worker": 2},
            threads_per_task=1,
            callbacks=[Dies({2: {"worker:0": ("epoch", 6)}} if dies else {})],
            checkpoint=False,
        )

    whole, run = run_of(False), run_of(True)
    assert {task: len(found) for task, found in pids(run).items()} == {"worker:0": 2, "worker:1": 2}
    went_on = [note.title for note in notes(run) if note.title.startswith("Training continues after step")]
    assert went_on == ["Training continues after step 5", f"Training continues after step {2 * STEPS}"]
    said = [note.text for note in notes(run) if "died (SIGKILL)" in note.title]
    assert all(" continues; " in text for text in said) and len(said) == 2
    assert_equal(run, whole)
    assert_no_step_twice(run)
    assert [*run.history["val_loss"]] == pytest.approx([*whole.history["val_loss"]], rel=0.2)


class Loses(keras.callbacks.Callback):
    """Runs on the chief. After five steps, creates the file ``here`` and waits for the file ``on``. After a step with
    fewer workers than at first, creates the file ``few`` if they are the fewest, and waits until others are back.
    """

    def __init__(self, directory: Path, fewest: int) -> None:
        super().__init__()
        self.here, self.on, self.few = directory / "here", directory / "on", directory / "few"
        self.fewest = fewest
        self.sizes: list[int] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        from jupyter_dtf.backend.task.context import current

        ctx = current()
        self.sizes.append(ctx.size)
        if len(self.sizes) == 5:
            self.here.touch()
            while not self.on.exists():
                time.sleep(0.01)
        if ctx.size == self.fewest:
            self.few.touch()
        while ctx.size < self.sizes[0] and not ctx.going_over.is_called:
            ctx.stop_requested.wait(0.01)


def plain_model() -> Any:
    keras.utils.set_random_seed(5)
    made = keras.Sequential([keras.Input((64,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(10)])
    made.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return made


@pytest.fixture(scope="module")
def three(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    """Three hosts of one thread each."""
    with dtf.Cluster(jobs={"worker": 3}, name="three-hosts", hosts=3, threads_per_host=1) as shared:
        yield shared


@pytest.mark.parametrize(
    "lost",
    [["worker:1"], pytest.param(["worker:1", "worker:2"], marks=pytest.mark.extended)],
    ids=["one", "all but one"],
)
def test_fewer_workers_go_on_where_hosts_are_gone_and_more_again_when_they_are_back(
    three: dtf.Cluster, tmp_path: Path, lost: list[str]
) -> None:
    wait_for(three, lambda info: len(info.hosts) == 3)
    loses = Loses(tmp_path, 3 - len(lost))
    run = three.fit(
        plain_model(),
        X,
        Y,
        batch_size=BATCH,
        epochs=2,
        shuffle=False,
        callbacks=[loses],
        checkpoint=False,
        restart=dtf.Restart(min_workers=3 - len(lost)),
        wait=False,
    )
    until(loses.here.exists, lambda: run)
    hosts = [task.host for task in run.info.tasks if task.task in lost]
    nannies = psutil.Process(connections.read(three.name).pid)
    before = set(nannies.children())
    for process in [dask_worker(three, host) for host in hosts]:
        process.kill()
    until(lambda: len(set(nannies.children()) - before) == len(lost), lambda: run)
    others = set(nannies.children()) - before
    for process in others:
        process.suspend()  # the hosts that the nannies have restarted
    loses.on.touch()
    until(loses.few.exists, lambda: (run, notes(run)))
    for process in others:
        process.resume()
    run.result(left_s())
    run.finish()

    without = [note.text for note in notes(run) if "its host" in note.title]
    assert [text for text in without if f"{lost[-1]}, for which there is no room" in text], without
    assert min(loses.sizes) == 3 - len(lost)
    grown = loses.sizes[loses.sizes.index(3 - len(lost)) :]
    assert grown == sorted(grown) and grown[-1] == 3, loses.sizes
    room = [note for note in notes(run) if note.title.startswith("There is room for ")]
    back = [note for note in notes(run) if re.fullmatch(r".+ (is|are) back: attempt \d of \d", note.title)]
    # A larger gang may have trained nothing when still more room appears and the next gang replaces it.
    assert len({*grown}) - 1 <= len(back) == len(room) <= len(lost)
    assert states(run).count("restarting") == len(without) + len(back)
    assert {task.state for task in run.info.tasks} == {TaskState.SUCCEEDED}
    assert {task: len(found) for task, found in pids(run).items()} == {
        name: 2 if name in lost else 1 for name in ("worker:0", "worker:1", "worker:2")
    }
    assert_no_step_twice(run)
    alone = plain_model()
    alone.fit(X, Y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0)
    for ours, theirs in zip(run.model.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
