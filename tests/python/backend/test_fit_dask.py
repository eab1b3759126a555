"""Training from Dask collections on a real cluster, compared with plain Keras on the same examples."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import cloudpickle
import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import keras
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from sklearn.datasets import load_digits

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session

from ..patience import until
from ..tiers import cut

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])

X, Y = load_digits(return_X_y=True)
X, Y = (X[:333] / 16).astype("float32"), Y[:333]
CHUNKS = (100, 7, 0, 1, 150, 75)
BATCH, EPOCHS = 50, 2


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    """Three workers on two hosts of two threads each."""
    with dtf.Cluster(jobs={"worker": 3}, name="fed", hosts=2, threads_per_host=2) as shared:
        yield shared
    session().close()


def model() -> Any:
    keras.utils.set_random_seed(3)
    made = keras.Sequential([keras.Input((64,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(10)])
    # Not Adam, which makes full-size steps even if gradients are only rounding errors.
    made.compile(
        keras.optimizers.SGD(0.1, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return made


@pytest.fixture(scope="module")
def plain() -> Any:
    """The model trained by plain Keras, and its history."""
    made = model()
    history = made.fit(
        X, Y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, validation_data=(X[:99], Y[:99]), verbose=0
    )
    return made, history.history


def forms(form: str) -> dict[str, Any]:
    """Return ``x``, ``y`` and ``validation_data`` in the given form."""
    bounds = np.cumsum((0, *CHUNKS))
    parts = [(X[low:high], Y[low:high]) for low, high in pairwise(bounds)]
    arrays = da.from_array(X, chunks=(CHUNKS, 40)), da.from_array(Y, chunks=(111,))
    if form == "arrays":
        return {"x": arrays[0], "y": arrays[1], "validation_data": (arrays[0][:99], arrays[1][:99])}
    if form == "unknown lengths":
        all_of_them = arrays[0][da.ones(len(X), chunks=(CHUNKS,), dtype=bool)]
        labels = arrays[1].rechunk((CHUNKS,))[da.ones(len(X), chunks=(CHUNKS,), dtype=bool)]
        return {"x": all_of_them, "y": labels, "validation_data": (arrays[0][:99], arrays[1][:99])}
    if form == "dataframe":
        frame = pd.DataFrame(X, columns=[f"p{n}" for n in range(64)]).assign(label=Y)
        ddf = dd.concat([dd.from_pandas(frame[:200], npartitions=3), dd.from_pandas(frame[200:], npartitions=1)])
        nothing = ddf[ddf.label < 100]
        return {
            "x": nothing[list(frame.columns[:-1])],
            "y": nothing["label"],
            "validation_data": (X[:99], Y[:99]),
        }
    if form == "bag":
        bag = db.from_delayed([dask.delayed(lambda x, y: list(zip(x, y, strict=True)))(*part) for part in parts])
        return {
            "x": bag,
            "validation_data": dtf.Feed(bag.filter(lambda each: True).take(99, npartitions=-1, compute=False)),
        }
    delayed = [dask.delayed(part) for part in parts]
    return {"x": delayed, "validation_data": (X[:99], Y[:99])}


@pytest.mark.parametrize(
    ("form", "workers"),
    cut(
        [("arrays", 3), ("unknown lengths", 2), ("dataframe", 2), ("bag", 3), ("delayed", 1)],
        keep=[("arrays", 3), ("dataframe", 2)],
    ),
)
def test_weights_are_those_of_one_process(cluster: dtf.Cluster, plain: Any, form: str, workers: int) -> None:
    trained = model()
    run = cluster.fit(
        trained,
        **forms(form),
        batch_size=BATCH,
        epochs=EPOCHS,
        shuffle=False,
        jobs={"worker": workers},
        threads_per_task=1,
    )
    expected, history = plain
    for ours, theirs in zip(trained.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)
    assert run.history.history.keys() == history.keys()
    for name, values in history.items():
        np.testing.assert_allclose(run.history.history[name], values, rtol=1e-3, err_msg=name)
    held = cluster.client.who_has
    until(lambda: not any(held().values()), "the day when nobody holds anything any more")


@pytest.mark.parametrize("strategy", [dtf.InGraph(), dtf.ParameterServer(sync=True)], ids=["in graph", "ps"])
def test_every_strategy_reads_the_same(cluster: dtf.Cluster, plain: Any, strategy: Any) -> None:
    jobs = {"worker": 2} if isinstance(strategy, dtf.InGraph) else {"worker": 2, "ps": 1}
    trained = model()
    cluster.fit(
        trained,
        **forms("arrays"),
        strategy=strategy,
        batch_size=BATCH,
        epochs=EPOCHS,
        shuffle=False,
        jobs=jobs,
        threads_per_task=1,
    )
    for ours, theirs in zip(trained.get_weights(), plain[0].get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


class DiesOnce(keras.callbacks.Callback):
    """Kills worker 1 once, in the middle of the second epoch, if there is a worker 1."""

    run_on_all_tasks = True

    def __init__(self, said: Path) -> None:
        super().__init__()
        self.said = said
        self.epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if (self.epoch, batch, dtf.rank()) == (1, 3, 1) and not self.said.exists():
            self.said.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def test_shuffled_neither_the_number_of_tasks_nor_a_loss_changes_anything(cluster: dtf.Cluster, tmp_path: Path) -> None:
    """Compares one task, whose partitions are computed once, with two that recompute them, one of which dies."""
    data = forms("unknown lengths")
    trained = []
    for compute, workers in (("once", 1), ("each_epoch", 2)):
        trained.append(model())
        feed = dtf.Feed(data["x"], data["y"], compute=compute, shuffle_buffer=120)
        cluster.fit(
            trained[-1],
            feed,
            batch_size=BATCH,
            epochs=EPOCHS,
            jobs={"worker": workers},
            callbacks=[DiesOnce(tmp_path / "dead")],
            threads_per_task=1,
        )
    assert (tmp_path / "dead").exists()
    for one, two in zip(*(each.get_weights() for each in trained), strict=True):
        np.testing.assert_allclose(one, two, atol=2e-5)


def passes(args: Any, ctx: Any) -> list[list[list[int]]]:
    """Return this task's examples in each batch of three passes, the last of which it ends early."""
    dataset = dtf.feed()
    return [[batch.numpy().tolist() for batch in each] for each in (dataset, dataset, dataset.take(1))]


def joined(parts: Any) -> list[list[int]]:
    """Return the batches of a pass, joined from the tasks' parts."""
    return [list(chain(*batch)) for batch in zip(*parts, strict=True)]


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
    """It resumes with the remaining batches, in the order of that pass, and continues with those of the next."""

    def options(**more: Any) -> dict[str, Any]:
        keras.utils.set_random_seed(3)  # the orders are drawn from this seed
        feed = dtf.Feed(
            forms("arrays")["x"], forms("arrays")["y"], compute=more.pop("compute", "once"), shuffle_buffer=120
        )
        jobs = {"jobs": {"worker": 2}, "threads_per_task": 1, "restart": False}
        return {"model": model(), "x": feed, "batch_size": BATCH, "epochs": 6, "steps_per_epoch": 3, **jobs, **more}

    expected, rest = Weights(), Weights()
    cluster.fit(**options(callbacks=[expected], checkpoint=False))
    assert len(expected.after) == 2 * 7
    policy = dtf.Checkpoint(every_steps=1, every_epochs=None)
    run = cluster.fit(**options(callbacks=[Ends(5)], checkpoint=policy, wait=False))
    run.wait()
    assert "enough" in run.info.message
    path = run.checkpoints[-1].path
    cluster.fit(**options(callbacks=[rest], resume=path))
    done = len(expected.after) - len(rest.after)
    assert 3 < done <= 5
    for received, wanted in zip(rest.after, expected.after[done:], strict=True):
        for one, other in zip(received, wanted, strict=True):
            np.testing.assert_allclose(one, other, atol=2e-5)
    with pytest.raises(dtf.RunFailed, match="can resume within .* only if `steps_per_epoch` is None"):
        cluster.fit(**options(resume=path, compute="each_epoch"))


def test_a_program_gets_every_example_once_a_pass(cluster: dtf.Cluster) -> None:
    numbers = cluster.client.persist(da.arange(333, chunks=(CHUNKS,)))
    kept = {key for key, workers in cluster.client.who_has(numbers).items() if workers}
    feed = dtf.Feed(numbers, shuffle_buffer=110)
    run = cluster.run(passes, feed=feed, batch_size=BATCH, threads_per_task=1, wait=False)
    run.wait()
    held = cluster.client.who_has
    until(lambda: not any(str(key).startswith("dtf-") for key in held()), "the end of what the run has held")
    first, second, _ = (joined(each) for each in zip(*run.result(), strict=True))
    assert [len(batch) for batch in first] == [50] * 6 + [33]
    for each in (first, second):
        assert sorted(chain(*each)) == list(range(333)) != list(chain(*each))
    assert first != second
    arrays = cluster.run(passes, feed=np.arange(333), batch_size=BATCH, shuffle=False, threads_per_task=1)
    assert list(chain(*joined([each[0] for each in arrays.result()]))) == list(range(333))
    assert {key for key, workers in cluster.client.who_has(numbers).items() if workers} >= kept


def fails_twice(block: Any, path: Path, times: int) -> Any:
    if len(block) == 75 and len(list(path.iterdir())) < times:
        (path / str(len(list(path.iterdir())))).touch()
        raise ValueError("this block is damaged")
    return block


def test_a_partition_that_fails_is_computed_again_as_often_as_asked(cluster: dtf.Cluster, tmp_path: Path) -> None:
    data = da.from_array(X, chunks=(CHUNKS, 64)).map_blocks(fails_twice, tmp_path, 2, dtype="float32")
    feed = dtf.Feed(data, da.from_array(Y, chunks=(CHUNKS,)), retries=2)
    cluster.fit(model(), feed, batch_size=BATCH, jobs={"worker": 2}, threads_per_task=1)
    assert len(list(tmp_path.iterdir())) == 2
    for file in tmp_path.iterdir():
        file.unlink()
    feed = dtf.Feed(data, da.from_array(Y, chunks=(CHUNKS,)), retries=1)
    with pytest.raises(
        dtf.RunFailed, match="Partition 5 of x could not be computed: ValueError: this block is damaged"
    ):
        cluster.fit(model(), feed, batch_size=BATCH, jobs={"worker": 2}, threads_per_task=1)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (
            [dask.delayed(X[:9]), dask.delayed(X[9:40])],
            [dask.delayed(Y[:9]), dask.delayed(Y[9:39])],
            "the same number of examples in every partition, got 31, 30 in partition 1 of x",
        ),
        (
            [dask.delayed((X[:9], Y[:9])), dask.delayed((X[9:40, :60], Y[9:40]))],
            None,
            r"InvalidInput: All partitions must .* got float32\[60\], int64\[\] in partition 1 of x",
        ),
        ([dask.delayed((X[:0], Y[:0]))], None, "at least one example"),
    ],
    ids=["lengths", "shapes", "empty"],
)
def test_partitions_that_disagree_are_named(cluster: dtf.Cluster, x: Any, y: Any, message: str) -> None:
    with pytest.raises(dtf.RunFailed, match=message):
        cluster.fit(model(), x, y, batch_size=BATCH, jobs={"worker": 2}, threads_per_task=1, shuffle=False)


def test_what_cannot_be_is_refused_before_anything_starts(cluster: dtf.Cluster) -> None:
    runs = len(cluster.runs)
    array = da.from_array(X, chunks=(100, 64))
    with pytest.raises(dtf.InvalidInput, match="must all be Dask collections"):
        cluster.fit(model(), array, Y)
    with pytest.raises(dtf.InvalidInput, match="equal numbers of partitions, at least one, got 4 in x, 2 in y"):
        cluster.fit(model(), array, da.from_array(Y[:200], chunks=100))
    with pytest.raises(dtf.InvalidInput, match="got 10 in partition 0 of y and 100 elsewhere"):
        cluster.fit(model(), array, da.from_array(Y[:40], chunks=10))
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address=None) as other,
        Client(other) as theirs,
        pytest.raises(dtf.InvalidInput, match="cluster's own Dask scheduler"),
    ):
        cluster.fit(model(), theirs.persist(array), theirs.persist(da.from_array(Y, chunks=100)))
    assert len(cluster.runs) == runs
