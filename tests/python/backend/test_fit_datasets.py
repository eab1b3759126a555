"""Training from passed datasets on a real cluster, compared step by step with plain Keras on the same dataset."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import keras
import numpy as np
import pytest
import tensorflow as tf
from sklearn.datasets import load_digits

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.events import Note

from ..patience import left_s
from ..tiers import cut

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])

X, Y = load_digits(return_X_y=True)
X, Y = X[:200].astype("float32") / 16, Y[:200]


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    """Three workers and a parameter server of one thread each."""
    with dtf.Cluster(jobs={"worker": 3, "ps": 1}, name="datasets", threads_per_host=4) as shared:
        yield shared
    session().close()


def model(steps_per_execution: int = 1) -> Any:
    keras.utils.set_random_seed(3)
    made = keras.Sequential([keras.Input((64,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(
        keras.optimizers.SGD(0.1, momentum=0.9), loss, metrics=["accuracy"], steps_per_execution=steps_per_execution
    )
    return made


def events(run: dtf.Run) -> list[Any]:
    return [event for _, event in session().hub.events(run.id)]


class Steps(keras.callbacks.Callback):
    """Records the weights after every step, and the number of steps at the end of each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: list[Any] = []
        self.epochs: list[int] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.weights.append([np.array(w) for w in self.model.get_weights()])

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epochs.append(len(self.weights))


def shuffled() -> tf.data.Dataset:
    """Return a dataset as in most programs. Its last batch leaves one of three tasks without an example."""
    dataset = tf.data.Dataset.from_tensor_slices((X[:98], Y[:98])).shuffle(100, seed=1)
    return dataset.map(lambda x, y: (x * 2, y), num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(2)


def endless() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(50, seed=2).repeat().batch(25)


def of_unknown_length() -> tf.data.Dataset:
    dataset = tf.data.Dataset.from_tensor_slices((X, Y, Y % 3 + 1)).filter(lambda x, y, w: y < 9)
    return dataset.map(lambda x, y, w: (x - 0.5, y, tf.cast(w, tf.float32))).batch(30)


def with_python() -> tf.data.Dataset:
    def scaled(x: Any) -> Any:
        return np.sqrt(x)

    def mapped(x: Any, y: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(scaled, [x], tf.float32), [64]), y

    return tf.data.Dataset.from_tensor_slices((X, Y)).map(mapped).batch(40, drop_remainder=True)


class Examples:
    """A generator function that yields different examples in each pass, as if they were drawn at random."""

    def __init__(self) -> None:
        self.passes = 0

    def __call__(self) -> Iterator[Any]:
        self.passes += 1
        for number in range(98):
            yield X[(number + 7 * self.passes) % 200], Y[(number + 7 * self.passes) % 200]


def read_here() -> tf.data.Dataset:
    """Return a dataset from a generator, which only the process that has it can read."""
    spec = tf.TensorSpec([64], tf.float32), tf.TensorSpec([], tf.int64)
    return tf.data.Dataset.from_generator(Examples(), output_signature=spec).shuffle(40, seed=4).batch(30)


def read_here_of_known_length() -> tf.data.Dataset:
    return read_here().apply(tf.data.experimental.assert_cardinality(4))


def for_validation() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((X[:71], Y[:71])).map(lambda x, y: (x, y)).batch(10)


CASES: dict[str, tuple[Callable[[], tf.data.Dataset], dict[str, Any]]] = {
    "shuffled": (shuffled, {"epochs": 3, "validation_data": for_validation}),
    "endless": (endless, {"epochs": 2, "steps_per_epoch": 5}),
    "of unknown length": (of_unknown_length, {"epochs": 2, "class_weight": None}),
    "with Python": (with_python, {"epochs": 2, "class_weight": {n: 1.0 + n / 10 for n in range(10)}}),
    "ends early": (shuffled, {"epochs": 2, "steps_per_epoch": 6}),
    "read here": (read_here, {"epochs": 3, "validation_data": read_here, "validation_steps": 2}),
    "read here, of known length": (read_here_of_known_length, {"epochs": 3, "validation_data": read_here}),
    "read here in parts": (read_here, {"epochs": 5, "steps_per_epoch": 3, "validation_data": read_here}),
}


def trained(fit: Callable[..., Any], name: str, **more: Any) -> tuple[Steps, Any]:
    make, options = CASES[name]
    steps = Steps()
    options = {key: value() if callable(value) else value for key, value in options.items()}
    return steps, fit(make(), callbacks=[steps], **options, **more)


def same(expected: Steps, received: Steps) -> None:
    assert received.epochs == expected.epochs
    for one, other in zip(expected.weights, received.weights, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


def nothing() -> tf.data.Dataset:
    """Return a dataset that turns out to be empty only when it is read."""
    return of_unknown_length().filter(lambda *batch: False)


STRATEGIES = {
    "allreduce": lambda: "allreduce",
    "ps": lambda: dtf.ParameterServer(sync=True),
    "mirrored": lambda: "mirrored",
}


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize(
    ("name", "strategy"),
    cut(
        [*((name, "allreduce") for name in CASES), ("shuffled", "ps"), ("shuffled", "mirrored"), ("read here", "ps")],
        keep=[("shuffled", "allreduce"), ("of unknown length", "allreduce"), ("read here", "ps")],
    ),
)
def test_step_by_step_as_plain_keras(cluster: dtf.Cluster, name: str, strategy: str) -> None:
    plain = model()
    expected, history = trained(lambda *a, **k: plain.fit(*a, verbose=0, shuffle=False, **k), name)
    ours = model()
    received, run = trained(lambda *a, **k: cluster.fit(ours, *a, **{"strategy": STRATEGIES[strategy](), **k}), name)
    same(expected, received)
    assert run.history.keys() == history.history.keys()
    for key, values in history.history.items():
        np.testing.assert_allclose(values, run.history[key], rtol=1e-3, atol=1e-4, err_msg=key)
    if strategy != "mirrored":
        notes = [event for event in events(run) if isinstance(event, Note) and "is divided" in event.title]
        assert len(notes) == 3


def test_asynchronous_workers_share_each_batch(cluster: dtf.Cluster) -> None:
    ours = model()
    ours.compile(keras.optimizers.SGD(0.05), ours.loss)  # three times the updates: with momentum they may diverge
    run = cluster.fit(ours, shuffled(), epochs=6, strategy=dtf.ParameterServer())
    assert len(run.history["loss"]) == 6
    assert run.history["loss"][-1] < run.history["loss"][0]
    assert [run.updates[f"worker:{number}"]["applied"] for number in range(3)] == [6 * 4] * 3


@pytest.mark.parametrize("epochs", [{"epochs": 3}, {"epochs": 12, "steps_per_epoch": 1}])
@pytest.mark.extended
def test_goes_on_in_the_middle_of_an_epoch(cluster: dtf.Cluster, epochs: dict[str, Any]) -> None:
    """It resumes with the remaining batches of the epoch, in their original order, and then those of the next.

    The same holds after some epochs of a pass.
    """
    expected = Steps()
    model().fit(shuffled(), verbose=0, shuffle=False, callbacks=[expected], **epochs)

    class Ends(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.steps = getattr(self, "steps", 0) + 1
            if self.steps == 6:
                raise RuntimeError("enough")

    policy = dtf.Checkpoint(every_steps=1, every_epochs=None)
    run = cluster.fit(model(), shuffled(), callbacks=[Ends()], checkpoint=policy, restart=False, wait=False, **epochs)
    with pytest.raises(dtf.errors.RunFailed, match="enough"):
        run.result(left_s())
    steps = Steps()
    ours = model()
    cluster.fit(ours, shuffled(), resume=run.checkpoints[-1].path, callbacks=[steps], **epochs)
    done = 12 - len(steps.weights)
    assert 4 < done < 7
    for one, other in zip(expected.weights[done:], steps.weights, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


def test_several_steps_at_a_time(cluster: dtf.Cluster) -> None:
    plain, ours = model(2), model(2)
    plain.fit(shuffled(), epochs=2, verbose=0, shuffle=False)
    cluster.fit(ours, shuffled(), epochs=2)
    for a, b in zip(plain.get_weights(), ours.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


def rows(bad: str) -> tf.data.Dataset:
    """Return digits parsed from text, with ``bad`` as the 111th line. The number of columns is unknown."""
    lines = [",".join(map(str, row)) for row in X]
    lines[110] = bad

    def parse(line: Any, y: Any) -> Any:
        return tf.strings.to_number(tf.strings.split(line, ",")), y

    return tf.data.Dataset.from_tensor_slices((lines, Y)).map(parse)


def narrow_in_the_middle() -> tf.data.Dataset:
    numbered = tf.data.Dataset.from_tensor_slices((X, Y)).batch(20).enumerate()
    return numbered.map(lambda number, batch: (batch[0][:, : tf.where(number == 5, 10, 64)], batch[1]))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"x": lambda: rows("a,b").batch(20)},
            "RuntimeError: Batch 6 of epoch 1 of the tf.data.Dataset in x could not be read: .*convert string: a",
        ),
        (
            {"x": narrow_in_the_middle},
            "RuntimeError: Batch 6 of epoch 1 of the tf.data.Dataset in x could not be processed by the model: Matrix "
            "size-incompatible",
        ),
        (
            {"x": shuffled, "validation_data": lambda: rows("1,2").batch(40)},
            "RuntimeError: Batch 3 of epoch 1 of the tf.data.Dataset in validation_data could not be read: ",
        ),
    ],
    ids=["unreadable", "narrow", "validation"],
)
def test_a_batch_that_fails_in_the_middle_is_named(cluster: dtf.Cluster, data: Any, message: str) -> None:
    data = {name: make() for name, make in data.items()}
    with pytest.raises(dtf.errors.RunFailed, match=message) as caught:
        cluster.fit(model(), **data, epochs=2, jobs={"worker": 2})
    assert all(task.state.is_final for task in dtf.run(caught.value.run_id).info.tasks)


def test_single_examples_are_refused(cluster: dtf.Cluster) -> None:
    """They are refused before anything starts if the dataset is known, and by the task if a function returns it."""
    digits = tf.data.Dataset.from_tensor_slices((X, X))
    message = r"must be batched, because the model takes batches of shape \(None, 64\), got elements of shape \(64,\)"
    runs = len(cluster.runs)
    with pytest.raises(dtf.InvalidInput, match=message):
        cluster.fit(model(), digits)
    with pytest.raises(dtf.InvalidInput, match=message):
        cluster.fit(model(), shuffled(), validation_data=digits)
    assert len(cluster.runs) == runs
    with pytest.raises(dtf.RunFailed, match="The dataset that the function returns in `x` " + message):
        cluster.fit(model(), lambda ctx: tf.data.Dataset.from_tensor_slices((X, X)), jobs={"worker": 2})


def test_an_error_of_a_map_reaches_the_cell(cluster: dtf.Cluster) -> None:
    def fails(x: Any, y: Any) -> Any:
        if int(y) == 5:
            raise ValueError("no fives")
        return x

    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).map(
        lambda x, y: (tf.ensure_shape(tf.numpy_function(fails, [x, y], tf.float32), [64]), y)
    )
    with pytest.raises(dtf.errors.RunFailed, match="Batch 1 of epoch 1 .* could not be read: ValueError: no fives"):
        cluster.fit(model(), dataset.batch(20))


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize("epochs", [{"epochs": 3}, {"epochs": 12, "steps_per_epoch": 1}])
@pytest.mark.extended
def test_what_is_read_here_goes_on_in_the_middle_of_an_epoch(cluster: dtf.Cluster, epochs: dict[str, Any]) -> None:
    """The resumed run reads its dataset anew, whose passes differ only in the shuffle."""

    def alike() -> tf.data.Dataset:
        spec = tf.TensorSpec([64], tf.float32), tf.TensorSpec([], tf.int64)
        examples = tf.data.Dataset.from_generator(lambda: zip(X[:98], Y[:98], strict=True), output_signature=spec)
        found = examples.shuffle(40, seed=4).batch(30)
        return found if len(epochs) == 1 else found.apply(tf.data.experimental.assert_cardinality(4))

    expected = Steps()
    model().fit(alike(), verbose=0, shuffle=False, callbacks=[expected], **epochs)

    class Ends(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.steps = getattr(self, "steps", 0) + 1
            if self.steps == 6:
                raise RuntimeError("enough")

    policy = dtf.Checkpoint(every_steps=1, every_epochs=None)
    run = cluster.fit(model(), alike(), callbacks=[Ends()], checkpoint=policy, restart=False, wait=False, **epochs)
    with pytest.raises(dtf.errors.RunFailed, match="enough"):
        run.result(left_s())
    steps, ours = Steps(), model()
    cluster.fit(ours, alike(), resume=run.checkpoints[-1].path, callbacks=[steps], **epochs)
    assert 4 < 12 - len(steps.weights) < 7
    for one, other in zip(reversed(expected.weights), reversed(steps.weights), strict=False):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


def test_a_generator_that_raises_in_its_second_pass_is_named(cluster: dtf.Cluster) -> None:
    passes: list[int] = []

    def fails() -> Iterator[Any]:
        passes.append(len(passes))
        for number in range(60):
            if len(passes) == 2 and number == 45:
                raise ZeroDivisionError("the sensor is off")
            yield X[number], Y[number]

    spec = tf.TensorSpec([64], tf.float32), tf.TensorSpec([], tf.int64)
    dataset = tf.data.Dataset.from_generator(fails, output_signature=spec).batch(20)
    with pytest.raises(
        dtf.errors.RunFailed, match=r"(?s)ZeroDivisionError: the sensor is off.*\(at batch 3\)"
    ) as caught:
        cluster.fit(model(), dataset, epochs=3)
    assert caught.value.__cause__ is not None


def test_data_that_end_early_are_told_of(cluster: dtf.Cluster) -> None:
    """A warning is given, as by Keras. Data without any batch are refused, before anything starts if that is known."""
    with pytest.raises(dtf.InvalidInput, match=r"`x` must have at least one batch, got an empty tf\.data\.Dataset"):
        cluster.fit(model(), shuffled().take(0))
    with pytest.raises(dtf.RunFailed, match="`x` must have at least one batch, got data without any"):
        cluster.fit(model(), nothing())
    run = cluster.fit(model(), shuffled(), epochs=2, steps_per_epoch=6)
    told = [event.title for event in events(run) if isinstance(event, Note) and event.level == "warning"]
    assert told == ["Epoch 1 ended after 4 of 6 steps"]
