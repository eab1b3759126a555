"""``cluster.predict`` and ``cluster.evaluate`` on a real cluster, compared with Keras's own on the same data."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import keras
import numpy as np
import pytest
import tensorflow as tf
from sklearn.datasets import load_digits

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session
from jupyter_dtf.errors import InvalidInput, RunFailed
from jupyter_dtf.schema.events import Note

from ..tiers import cut

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])

X, Y = load_digits(return_X_y=True)
X, Y = X[:1003].astype("float32") / 16, Y[:1003]
WEIGHTS = np.linspace(0.1, 2, len(X), dtype="float32")


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    """Three workers of one thread each."""
    with dtf.Cluster(jobs={"worker": 3}, name="answers", threads_per_host=3) as shared:
        yield shared
    session().close()


def classifier(*more: Any) -> Any:
    keras.utils.set_random_seed(3)
    layers = [keras.Input((64,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.5), *more]
    return keras.Sequential([*layers, keras.layers.Dense(10, activation="softmax")])


class OfWholeBatch(keras.layers.Layer):
    """A layer whose output for an example depends on the other examples of the batch, and on their number."""

    def call(self, x: Any) -> Any:
        return x - tf.reduce_mean(x, 0, keepdims=True) + tf.cast(tf.shape(x)[0], x.dtype)


class Counting(keras.layers.Layer):
    """A layer whose output depends on the number of batches before."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.count = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, x: Any) -> Any:
        self.count.assign_add(1.0)
        return x + self.count


class Largest(keras.metrics.Metric):
    """A metric whose states do not add up."""

    def __init__(self, name: str = "largest", **options: Any) -> None:
        super().__init__(name=name, **options)
        self.largest = self.add_variable((), "zeros", name="largest")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.largest.assign(tf.maximum(self.largest, tf.reduce_max(y_pred)))

    def result(self) -> Any:
        return self.largest


def notes(run: Any) -> list[str]:
    return [event.title for _, event in run._session.hub.events(run.id) if isinstance(event, Note)]


@pytest.mark.parametrize("batch_size", [None, 20, 501, 2000])
def test_predictions_are_those_of_one_process(cluster: dtf.Cluster, batch_size: int | None) -> None:
    model = classifier(OfWholeBatch())
    ours, theirs = cluster.predict(model, X, batch_size), model.predict(X, batch_size, verbose=0)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert ours.flags.writeable


def test_every_structure_and_kind_of_output(cluster: dtf.Cluster) -> None:
    inputs = {"a": keras.Input((64,), name="a"), "b": keras.Input((), dtype="int64", name="b")}
    shared = keras.layers.Dense(8)(inputs["a"])
    outputs = {
        "half": keras.layers.Dense(3, dtype="float16")(shared),
        "both": [keras.ops.sum(inputs["a"], axis=1), inputs["b"] * 2],
        "number": keras.ops.max(shared),
    }
    model = keras.Model(inputs, outputs)
    x = {"a": X, "b": np.arange(len(X))}
    for steps in (None, 7):
        ours, theirs = (
            cluster.predict(model, x, steps=steps, batch_size=32),
            model.predict(x, steps=steps, batch_size=32, verbose=0),
        )
        keras.tree.assert_same_structure(ours, theirs)
        for mine, their in zip(keras.tree.flatten(ours), keras.tree.flatten(theirs), strict=True):
            assert (mine.shape, mine.dtype) == (their.shape, their.dtype)
            np.testing.assert_allclose(mine, their, rtol=1e-3 if mine.dtype == "float16" else 1e-5, atol=1e-6)


def test_a_dataset_is_answered_in_its_order_whatever_its_batches_are(cluster: dtf.Cluster) -> None:
    def data_fn(ctx: Any) -> Any:
        rows = tf.data.Dataset.from_tensor_slices((X[:100], Y[:100]))
        return rows.map(lambda x, y: (x[: 1 + y], y)).padded_batch(9)

    inputs = keras.Input((None,))
    model = keras.Model(inputs, inputs * 2)
    ours, theirs = cluster.predict(model, data_fn), model.predict(data_fn(None), verbose=0)
    assert isinstance(theirs, tf.RaggedTensor)  # batches of different widths
    assert ours.to_list() == theirs.to_list()
    with pytest.raises(RunFailed, match="`steps` must be the number of batches"):
        cluster.predict(model, lambda ctx: data_fn(ctx).repeat())
    ours = cluster.predict(model, lambda ctx: data_fn(ctx).repeat(), steps=14)
    assert ours.to_list() == model.predict(data_fn(None).repeat(), steps=14, verbose=0).to_list()


class Slices(keras.utils.PyDataset):
    """Batches of 30 and a last one of 13."""

    def __len__(self) -> int:
        return 34

    def __getitem__(self, number: int) -> Any:
        return X[30 * number : 30 * number + 30], Y[30 * number : 30 * number + 30]


def of_the_graph() -> Any:
    return tf.data.Dataset.from_tensor_slices((X, Y)).map(lambda x, y: (x * 2, y)).batch(30)


def of_a_generator() -> Any:
    spec = tf.TensorSpec([64], tf.float32), tf.TensorSpec([], tf.int64)
    return tf.data.Dataset.from_generator(lambda: zip(X, Y, strict=True), output_signature=spec).batch(30)


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize("tasks", cut([2, 3], keep=[]))
def test_every_form_is_answered_in_its_order_with_an_uneven_end(
    cluster: dtf.Cluster, tmp_path: Path, tasks: int
) -> None:
    """The last batch has 13 examples, and the tasks get unequal numbers of examples."""
    h5py = pytest.importorskip("h5py")
    np.save(tmp_path / "x.npy", X)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = X
    model = classifier(OfWholeBatch())
    loss = keras.losses.SparseCategoricalCrossentropy(reduction="sum")
    model.compile("sgd", loss, metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(3)])
    labels: dict[str, Any] = {"y": Y, "batch_size": 30}
    with h5py.File(tmp_path / "x.h5") as file:
        for make, beside in (
            (of_the_graph, {}),
            (of_a_generator, {}),
            (Slices, {}),
            (lambda: np.load(tmp_path / "x.npy", mmap_mode="r"), labels),
            (lambda: file["x"], labels),
        ):
            here = X if beside else make()
            batch: dict[str, Any] = {"batch_size": 30} if beside else {}
            ours = cluster.predict(model, make(), jobs={"worker": tasks}, **batch)
            np.testing.assert_allclose(ours, model.predict(here, verbose=0, **batch), rtol=1e-5, atol=1e-7)
            ours = cluster.evaluate(model, make(), jobs={"worker": tasks}, **beside)
            np.testing.assert_allclose(ours, model.evaluate(here, verbose=0, **beside), rtol=1e-4)
            assert not {"Only one task predicts", "Only one task evaluates"} & set(notes(cluster.runs[0]))
    with pytest.raises(InvalidInput, match="`steps` must be given for an infinite dataset"):
        cluster.predict(model, of_a_generator().repeat())


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # Keras's own warning about a generator that ends
def test_a_generator_is_read_here_and_answered_there(cluster: dtf.Cluster) -> None:
    def batches() -> Iterator[Any]:
        for begin in range(0, 200, 30):
            yield X[begin : begin + 30], Y[begin : begin + 30]

    model = classifier(OfWholeBatch())
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    for steps in (None, 5):
        theirs = model.predict(batches(), steps=steps, verbose=0)
        np.testing.assert_allclose(cluster.predict(model, batches(), steps=steps), theirs, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(
            cluster.evaluate(model, batches(), steps=steps),
            model.evaluate(batches(), steps=steps, verbose=0),
            rtol=1e-5,
        )
    with pytest.raises(InvalidInput, match="got batch 1 with .*int64.* after batches with .*float32"):
        cluster.predict(model, iter([X, Y]))
    with pytest.raises(InvalidInput, match="got an exhausted generator"):
        cluster.predict(model, iter(()))


def test_a_model_that_changes_itself_answers_on_one_task_and_comes_home_changed(cluster: dtf.Cluster) -> None:
    for layer in (Counting(), keras.layers.Reshape((1, 16))):
        more = [layer]
        if isinstance(layer, keras.layers.Reshape):
            more.append(keras.layers.LSTM(4, stateful=True))
        model = keras.Sequential([keras.Input(batch_shape=(17, 64)), keras.layers.Dense(16), *more])
        model.summary(print_fn=lambda _: None)
        twin = keras.models.clone_model(model)
        twin.set_weights(model.get_weights())
        for _ in range(2):  # the second call starts from the state that the first has left
            np.testing.assert_allclose(
                cluster.predict(model, X, batch_size=17), twin.predict(X, batch_size=17, verbose=0), rtol=1e-5
            )
    assert "Only one task predicts" in notes(cluster.runs[0])


def test_evaluations_are_those_of_one_process(cluster: dtf.Cluster) -> None:
    inputs = keras.Input((64,))
    shared = OfWholeBatch()(keras.layers.Dense(16, activation="relu")(inputs))
    one = keras.layers.Dense(10, activation="softmax", name="one", kernel_regularizer="l2")(shared)
    model = keras.Model(inputs, {"one": one, "two": keras.layers.Dense(1, activation="sigmoid", name="two")(shared)})
    y = {"one": Y, "two": (Y > 4).astype("float32")[:, None]}
    model.compile(
        "adam",
        {"one": keras.losses.SparseCategoricalCrossentropy(reduction="sum"), "two": "binary_crossentropy"},
        metrics={
            "one": ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(3)],
            "two": [keras.metrics.AUC(), keras.metrics.BinaryIoU(target_class_ids=[0, 1])],
        },
    )
    for options in ({}, {"batch_size": 50, "sample_weight": {"one": WEIGHTS, "two": WEIGHTS}}, {"steps": 3}):
        ours = cluster.evaluate(model, X, y, return_dict=True, **options)
        theirs = model.evaluate(X, y, return_dict=True, verbose=0, **options)
        assert list(ours) == list(theirs)
        np.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=1e-4)
    assert "Only one task evaluates" not in notes(cluster.runs[0])
    np.testing.assert_allclose(
        cluster.evaluate(model, X, y), model.evaluate(X, y, verbose=0), rtol=1e-4
    )  # a list in the order of the metrics


@pytest.mark.extended
def test_what_does_not_add_up_is_evaluated_by_one_task(cluster: dtf.Cluster) -> None:
    model = classifier()
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=[Largest()])
    ours, theirs = cluster.evaluate(model, X, Y), model.evaluate(X, Y, verbose=0)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert "Only one task evaluates" in notes(cluster.runs[0])


def test_a_run_that_is_not_waited_for_has_the_answer_and_is_found_with_it(cluster: dtf.Cluster) -> None:
    model = classifier()
    run = cluster.predict(model, X, wait=False)
    theirs = model.predict(X, verbose=0)
    np.testing.assert_allclose(run.result(), theirs, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dtf.run(run.id).result(), theirs, rtol=1e-5, atol=1e-6)
    assert run.info.kind == "predict" and run.info.progress.unit == "batch"


def test_what_cannot_be_is_a_sentence(cluster: dtf.Cluster) -> None:
    class Fails(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            raise ValueError("not this model")

        def compute_output_shape(self, shape: Any) -> Any:
            return shape

    class Sparse(keras.Model):
        def call(self, x: Any) -> Any:
            return tf.sparse.from_dense(x)

    def sparse() -> Any:
        return Sparse()

    with pytest.raises(InvalidInput, match="`callbacks` must be None"):
        cluster.predict(classifier(), X, callbacks=[keras.callbacks.History()])
    with pytest.raises(InvalidInput, match="call model.compile"):
        cluster.evaluate(classifier(), X, Y)
    with pytest.raises(RunFailed, match="not this model"):
        cluster.predict(lambda: keras.Sequential([Fails()]), X)
    with pytest.raises(RunFailed, match="must be a dense tensor, got SparseTensor"):
        cluster.predict(sparse, X)
