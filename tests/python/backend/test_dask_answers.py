"""``cluster.predict`` of Dask collections, computed by the workers of a real cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import dask
import dask.array as da
import dask.bag as db
import keras
import numpy as np
import pytest
import tensorflow as tf
from distributed import Client
from sklearn.datasets import load_digits

import jupyter_dtf as dtf
from jupyter_dtf.backend.viewer.link import security_of
from jupyter_dtf.client.session import session
from jupyter_dtf.errors import InvalidInput

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])

X = load_digits().data[:500] / 16  # float64, which Keras converts to float32
Y = load_digits().target[:500]


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    with dtf.Cluster(jobs={"worker": 2}, name="lazy", threads_per_host=1) as shared:
        yield shared
    session().close()


@pytest.fixture(scope="module")
def client(cluster: dtf.Cluster) -> Iterator[Client]:
    """A client of the cluster's own scheduler."""
    cluster.wait_ready()
    connection = session().do(lambda fleet: fleet.connection(cluster.name))
    with Client(connection.address, security=security_of(connection)) as made:
        yield made


class Sees(keras.layers.Layer):
    """A layer that appends the size of the batch to each example."""

    def call(self, x: Any) -> Any:
        return tf.concat([x, tf.fill([tf.shape(x)[0], 1], tf.cast(tf.shape(x)[0], x.dtype))], 1)


class Draws(keras.layers.Layer):
    """A layer that adds random numbers."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.seeds = keras.random.SeedGenerator(1)

    def call(self, x: Any) -> Any:
        return x + keras.random.normal(tf.shape(x), seed=self.seeds)


def network() -> Any:
    keras.utils.set_random_seed(2)
    layers = [keras.Input((64,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.5)]
    return keras.Sequential([*layers, keras.layers.Dense(3), Sees()])


def by_partition(model: Any, x: Any, ends: list[int], batch_size: int | None = None) -> Any:
    """Return the predictions of ``model.predict`` for each partition, concatenated."""
    return np.concatenate([model.predict(part, batch_size, verbose=0) for part in np.split(x, ends)])


def test_arrays_are_answered_by_the_workers_with_the_same_chunks(cluster: dtf.Cluster, client: Client) -> None:
    model = network()
    lazy = cluster.predict(model, da.from_array(X, chunks=((200, 300), (30, 34))), 50)
    assert (lazy.chunks, lazy.dtype) == (((200, 300), (4,)), np.float32)
    np.testing.assert_array_equal(client.compute(lazy).result(), by_partition(model, X, [200], 50))
    chosen = da.from_array(X, chunks=(100, 64))
    chosen = chosen[da.arange(500, chunks=100) >= 130]  # partitions of unknown lengths, one of them empty
    answers = cluster.predict(model, chosen)
    assert np.isnan(answers.shape[0]) and answers.shape[1] == 4 and answers.npartitions == 5
    theirs = by_partition(model, X[130:], [70, 170, 270])
    np.testing.assert_array_equal(client.compute(answers).result(), theirs)
    assert not any(client.run(lambda: "tensorflow" in sys.modules).values())  # hosts do not import it


def test_evaluations_are_those_of_one_process(cluster: dtf.Cluster) -> None:
    """Partitions may be uneven, empty or of unknown length, and batches may span several of them."""
    keras.utils.set_random_seed(2)
    layers = [keras.Input((64,)), keras.layers.Dense(16, activation="relu"), Sees()]
    model = keras.Sequential([*layers, keras.layers.Dense(10, activation="softmax")])
    loss = keras.losses.SparseCategoricalCrossentropy(reduction="sum")
    model.compile("sgd", loss, metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(3)])
    x, y = (da.from_array(a, chunks=((130, 1, 300, 69), *whole)) for a, whole in ((X, (64,)), (Y, ())))
    wanted = da.from_array(np.arange(500), chunks=((130, 1, 300, 69),)) >= 131
    weights = da.from_array(np.linspace(0, 2, 500), chunks=500)
    for ours, theirs in (
        (cluster.evaluate(model, x, y, 48, sample_weight=weights), (X, Y, 48, weights.compute())),
        (cluster.evaluate(model, x[wanted], y[wanted]), (X[131:], Y[131:], 32, None)),
        (cluster.evaluate(model, dtf.Feed(x, y, compute="each_epoch"), steps=7), (X[:224], Y[:224], 32, None)),
    ):
        tx, ty, batch_size, weight = theirs
        expected = model.evaluate(tx, ty, batch_size, verbose=0, sample_weight=weight)
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6)
    assert cluster.runs[0].info.kind == "evaluate"


def test_several_inputs_and_outputs(cluster: dtf.Cluster, client: Client) -> None:
    inputs = {"a": keras.Input((64,), name="a"), "b": keras.Input((2,), name="b")}
    outputs = {"sum": keras.ops.sum(inputs["a"], 1), "pair": [inputs["b"] * 2, keras.layers.Dense(2)(inputs["a"])]}
    model = keras.Model(inputs, outputs)
    x = {"a": da.from_array(X, chunks=(300, 64)), "b": da.from_array(X[:, :2], chunks=(100, 2))}
    lazy = cluster.predict(model, x)
    theirs = model.predict({"a": X, "b": X[:, :2]}, verbose=0)
    keras.tree.assert_same_structure(lazy, theirs)
    for ours, their in zip(keras.tree.flatten(lazy), keras.tree.flatten(theirs), strict=True):
        assert ours.chunks[0] == (300, 200)
        np.testing.assert_allclose(client.compute(ours).result(), their, rtol=1e-5, atol=1e-6)


def test_a_bag_and_a_dataframe(cluster: dtf.Cluster, client: Client, tmp_path: Path) -> None:
    model = network()
    feed = dtf.Feed(da.from_array(X, chunks=(250, 64)), da.from_array(Y), compute="each_epoch", shuffle_buffer=7)
    np.testing.assert_array_equal(client.compute(cluster.predict(model, feed)).result(), by_partition(model, X, [250]))
    bag = cluster.predict(model, db.from_sequence(list(X[:60]), npartitions=2))
    np.testing.assert_array_equal(np.stack(client.compute(bag).result()), by_partition(model, X[:60], [30]))
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, index=np.arange(len(X)) * 3)
    lazy = cluster.predict(model, dd.from_pandas(frame, npartitions=2))
    assert lazy.divisions == (0, 750, 1497) and list(lazy.columns) == ["0", "1", "2", "3"]
    with client.as_current():
        lazy.to_parquet(str(tmp_path / "answers"))
    assert len(list((tmp_path / "answers").glob("*.parquet"))) == 2
    found = pd.read_parquet(tmp_path / "answers")
    np.testing.assert_array_equal(found.to_numpy(), by_partition(model, X, [250]))
    assert (found.index == frame.index).all() and (found.dtypes == np.float32).all()


def test_what_cannot_be_is_a_sentence_that_names_the_partition(cluster: dtf.Cluster, client: Client) -> None:
    class Refuses(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            tf.debugging.assert_less(x, 2.0, "not so large")
            return x

    model = keras.Sequential([keras.Input((64,)), Refuses()])
    x = X.copy()
    x[250:] += 2
    with pytest.raises(Exception, match=r"(?s)The model failed on partition 1: .*not so large"):
        client.compute(cluster.predict(model, da.from_array(x, chunks=(250, 64)))).result()
    random = keras.Sequential([keras.Input((64,)), Draws()])
    random.compile("sgd", "mse")
    with pytest.raises(Exception, match="must not change its state when it predicts"):
        client.compute(cluster.predict(random, da.from_array(X))).result()
    with pytest.raises(InvalidInput, match="`steps` must be None for a Dask collection"):
        cluster.predict(model, da.from_array(X), steps=3)
    with pytest.raises(InvalidInput, match="must all be Dask collections if one of them is"):
        cluster.evaluate(random, da.from_array(X), X)
    with pytest.raises(InvalidInput, match=r"`retries` of a Feed must be 0 .*result\.compute\(retries=2\)"):
        cluster.predict(model, dtf.Feed(da.from_array(X), retries=2))
    with pytest.raises(InvalidInput, match=r"must be a Dask array, dataframe or bag.* got \[Delayed"):
        cluster.predict(model, [dask.delayed(X)])
    with pytest.raises(InvalidInput, match="a dict, list or tuple of Dask arrays or dataframes"):
        cluster.predict(model, {"a": da.from_array(X), "b": X})
