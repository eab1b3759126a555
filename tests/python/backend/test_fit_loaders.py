"""Training from loaders and from arrays on disk on a real cluster, compared with plain Keras on the same data."""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import h5py
import keras
import numpy as np
import pytest
from sklearn.datasets import load_digits

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session
from jupyter_dtf.errors import RunFailed
from jupyter_dtf.schema.events import Note

from ..tiers import cut
from . import pytorch_standin

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])
cloudpickle.register_pickle_by_value(pytorch_standin)

X, Y = load_digits(return_X_y=True)
X, Y = X[:230].astype("float32") / 16, Y[:230]
BATCH, EPOCHS = 50, 3
STEPS = math.ceil(len(X) / BATCH)


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    """Two workers and a parameter server of one thread each."""
    with dtf.Cluster(jobs={"worker": 2, "ps": 1}, name="loaders", threads_per_host=3) as shared:
        yield shared
    session().close()


def model() -> Any:
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Dense(16, activation="relu", name="hidden"), keras.layers.Dense(10, name="out")]
    made = keras.Sequential([keras.Input((64,)), *layers])
    made.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return made


class Digits(keras.utils.PyDataset):
    """Batches of digits, shuffled after every epoch if ``shuffles``, by the dataset's own random generator."""

    def __init__(self, shuffles: bool = False, fails: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.order = np.arange(len(X))
        self.rng = np.random.default_rng(1)
        self.shuffles = shuffles
        self.fails = fails
        self.epoch = 0

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, number: int) -> Any:
        rows = self.order[number * BATCH : (number + 1) * BATCH]
        if (self.epoch, number) == (2, 3):  # Keras calls on_epoch_end once before the first epoch
            if self.fails == "raises":
                raise LookupError("page 17 is missing")
            if self.fails == "exits":
                sys.exit("no more disks")
            if self.fails == "narrow":
                return X[rows][:, :60], Y[rows]
        return X[rows], Y[rows]

    def on_epoch_end(self) -> None:
        self.epoch += 1
        if self.fails == "hook" and self.epoch == 2:
            raise LookupError("no index")
        if self.shuffles:
            self.rng.shuffle(self.order)


DEVICES = ["/job:worker/task:0/device:CPU:0", "/job:worker/task:1/device:CPU:0"]
STRATEGIES: dict[str, Any] = {
    "allreduce": {"jobs": {"worker": 2}},
    "ps": {"strategy": dtf.ParameterServer(sync=True)},
    "mirrored": {"strategy": dtf.InGraph(devices=tuple(DEVICES)), "jobs": {"worker": 2}},
    "pipeline": {
        "strategy": dtf.Pipeline(dict(zip(("hidden", "out"), DEVICES, strict=True)), microbatches=1),
        "jobs": {"worker": 2},
    },
}


def fit(cluster: dtf.Cluster, x: Any, **options: Any) -> Any:
    defaults: dict[str, Any] = {
        "epochs": EPOCHS,
        "shuffle": False,
        "verbose": 0,
        "threads_per_task": 1,
        "checkpoint": False,
    }
    return cluster.fit(model(), x, **{**defaults, **options})


def assert_same(received: Any, expected: Any, **tolerance: float) -> None:
    for one, other in zip(received.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance.get("rtol", 2e-4), atol=tolerance.get("atol", 2e-6))


@pytest.mark.parametrize("strategy", cut(STRATEGIES, keep=["allreduce", "ps"]))
def test_a_py_dataset_gives_the_weights_of_one_process(cluster: dtf.Cluster, strategy: str) -> None:
    """The dataset reorders itself after each epoch; another one provides the validation data."""
    expected = model()
    history = expected.fit(
        Digits(True), epochs=EPOCHS, shuffle=False, validation_data=Digits(), validation_steps=3, verbose=0
    ).history
    run = fit(cluster, Digits(True), validation_data=Digits(), validation_steps=3, **STRATEGIES[strategy])
    assert_same(run.model, expected)
    for name, values in history.items():
        np.testing.assert_allclose(run.history[name], values, rtol=1e-3, atol=1e-5)


def test_processes_weights_and_executions_of_several_steps(cluster: dtf.Cluster) -> None:
    """Keras gives classes that are not named, in the middle and at the end, the weight 1."""
    options: dict[str, Any] = {"class_weight": {digit: 1 + digit for digit in (1, 2, 6)}}
    expected = model()
    expected.fit(Digits(), epochs=2, shuffle=False, verbose=0, **options)
    data = Digits(workers=2, use_multiprocessing=True, max_queue_size=4)
    run = fit(cluster, data, epochs=2, jobs={"worker": 2}, **options)
    assert_same(run.model, expected)


@pytest.mark.parametrize("strategy", cut(STRATEGIES, keep=["allreduce", "pipeline"]))
def test_arrays_on_disk_train_as_those_in_memory(cluster: dtf.Cluster, strategy: str, tmp_path: Path) -> None:
    """They are read from several files, in the same order if they are shuffled, also for validation."""
    x = np.memmap(tmp_path / "x.raw", X.dtype, "w+", shape=X.shape)
    x[:] = X
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["y"] = Y
        trained = []
        for inputs, labels in ((X, Y), (x, file["y"])):
            keras.utils.set_random_seed(9)  # the order is drawn from this seed
            options = {"shuffle": True, "validation_split": 0.2, "batch_size": BATCH, "y": labels}
            trained.append(fit(cluster, inputs, **options, **STRATEGIES[strategy]))
    expected, received = trained
    for one, other in zip(received.model.get_weights(), expected.model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(received.history["val_loss"], expected.history["val_loss"], rtol=1e-5)


class Still(Digits):
    on_epoch_end = keras.utils.PyDataset.on_epoch_end


def test_workers_that_go_their_own_pace_read_by_themselves(cluster: dtf.Cluster) -> None:
    run = fit(cluster, Still(), strategy="ps")
    assert run.history["loss"][-1] < run.history["loss"][0]
    with pytest.raises(RunFailed, match=r"its own on_epoch_end must be read by .* whose workers are not synchronous"):
        fit(cluster, Digits(True), strategy="ps")


class Dies(keras.callbacks.Callback):
    """Kills worker 1 after ``steps`` steps of the first attempt."""

    run_on_all_tasks = True

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.left = steps

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        from jupyter_dtf.backend.task.context import current

        self.left -= 1
        if self.left == 0 and current().attempt == 1 and current().task == "worker:1":
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("checkpoint", [False, True], ids=["goes_on", "checkpoint"])
@pytest.mark.extended
def test_a_killed_worker_reads_on_where_the_others_are(cluster: dtf.Cluster, checkpoint: bool) -> None:
    expected = model()
    expected.fit(Digits(True), epochs=EPOCHS, shuffle=False, verbose=0)
    run = fit(
        cluster,
        Digits(True),
        jobs={"worker": 2},
        callbacks=[Dies(STEPS + 2)],
        checkpoint=dtf.Checkpoint(every_steps=3) if checkpoint else False,
        validation_data=Digits(True),
        wait=False,
    )
    run.wait()
    assert_same(run.model, expected)


class Weights(keras.callbacks.Callback):
    """Records the weights after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.after: list[Any] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.after.append(self.model.get_weights())


class Ends(keras.callbacks.Callback):
    """Ends the training with an error after ``left`` steps."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.left -= 1
        if not self.left:
            raise RuntimeError("enough")


def test_goes_on_within_a_pass_of_several_epochs(cluster: dtf.Cluster) -> None:
    """It resumes with the remaining batches of the pass, in their current order."""

    class Shuffled(Digits):
        def on_epoch_end(self) -> None:
            np.random.shuffle(self.order)

    def options(**more: Any) -> dict[str, Any]:
        keras.utils.set_random_seed(3)  # the orders are drawn from this seed
        return {"jobs": {"worker": 2}, "shuffle": True, "restart": False, "epochs": 8, "steps_per_epoch": 2, **more}

    expected, rest = Weights(), Weights()
    fit(cluster, Shuffled(), **options(callbacks=[expected]))
    policy = dtf.Checkpoint(every_steps=1, every_epochs=None)
    run = fit(cluster, Shuffled(), **options(callbacks=[Ends(3)], checkpoint=policy, wait=False))
    run.wait()
    assert "enough" in run.info.message
    fit(cluster, Shuffled(), **options(callbacks=[rest], resume=run.checkpoints[-1].path))
    done = len(expected.after) - len(rest.after)
    assert 1 < done <= 3
    for received, wanted in zip(rest.after, expected.after[done:], strict=True):
        for one, other in zip(received, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "raises",
            ": RuntimeError: Batch 3 of the PyDataset in x could not be computed in epoch 2: LookupError: page 17 is "
            "missing\n",
        ),
        (
            "exits",
            ": RuntimeError: Batch 3 of the PyDataset in x could not be computed in epoch 2: SystemExit: no more "
            "disks\n",
        ),
        ("hook", ": RuntimeError: on_epoch_end of the PyDataset in x failed in epoch 1: LookupError: no index\n"),
        ("narrow", "InvalidInput: .*the structure and the shapes of the first two.*batch 3 with"),
    ],
)
def test_what_fails_in_epoch_2_is_raised_once_with_its_batch(cluster: dtf.Cluster, kind: str, message: str) -> None:
    """It is not raised as an error of TensorFlow's, whether threads or processes read the data."""
    options: dict[str, Any] = {"workers": 2, "use_multiprocessing": True} if kind == "exits" else {}
    with pytest.raises(RunFailed, match=message):
        fit(cluster, Digits(fails=kind, **options), jobs={"worker": 2})


class Examples:
    """The digits one by one, as in a PyTorch dataset."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> Any:
        return X[index], Y[index]


def data_loader(**options: Any) -> Any:
    """Return a data loader that shuffles with its own generator."""
    generator = np.random.default_rng(6)
    return pytorch_standin.DataLoader(Examples(), batch_size=BATCH, shuffle=True, generator=generator, **options)


def test_a_data_loader_gives_the_weights_of_one_process(cluster: dtf.Cluster) -> None:
    """It is sent with its sampler, and its processes read in the tasks. Keras itself would require PyTorch."""
    plain, expected = data_loader(), model()
    next(iter(plain))  # as Keras inspects it
    batches = [tuple(np.asarray(leaf.cpu()) for leaf in batch) for _ in range(2) for batch in plain]
    expected.fit((batch for batch in batches), steps_per_epoch=STEPS, epochs=2, shuffle=False, verbose=0)
    run = fit(cluster, data_loader(num_workers=2), epochs=2, jobs={"worker": 2})
    assert_same(run.model, expected)


def test_a_data_loader_of_a_stream_is_read_here(cluster: dtf.Cluster) -> None:
    class Stream(pytorch_standin.IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            return zip(X, Y, strict=True)

    expected = model()
    validation = (X[:BATCH], Y[:BATCH])
    expected.fit(X, Y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0)
    made = pytorch_standin.DataLoader(Stream(), batch_size=BATCH)
    run = fit(cluster, made, epochs=2, jobs={"worker": 2}, validation_data=validation)
    assert_same(run.model, expected)
    told = [event.text for _, event in session().hub.events(run.id) if isinstance(event, Note)]
    assert any("IterableDataset" in text for text in told)
