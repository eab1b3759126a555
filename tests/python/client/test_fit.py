"""Tests of what ``fit`` checks and sends on the client, and of how it applies the result."""

from __future__ import annotations

import importlib.util
import pickle
import re
import subprocess
import sys
import types
import warnings
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pytest

from jupyter_dtf.backend.task.fit.callback_pickles import Pickles
from jupyter_dtf.backend.task.fit.job import Arrays, DataFunction, FitJob, FitResult
from jupyter_dtf.backend.task.model import keras_io
from jupyter_dtf.client import trained_weights
from jupyter_dtf.client.fit import PreparedFit, prepare
from jupyter_dtf.client.keras_settings import limited
from jupyter_dtf.errors import InvalidInput, Unavailable
from jupyter_dtf.schema.checkpoint import Checkpoint
from jupyter_dtf.schema.strategy import AllReduce, InGraph, ParameterServer, Pipeline

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import keras
    import tensorflow as tf

X = np.arange(20, dtype="float64").reshape(10, 2)
Y = np.arange(10) % 3


def model_function() -> Any:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, activation="softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def job_of(prepared: PreparedFit) -> FitJob:
    """Return the job as a task sees it."""
    _, (job,), _ = pickle.loads(cloudpickle.dumps(prepared.program))
    assert isinstance(job, FitJob)
    return job


# -- data ----------------------------------------------------------------------------------------------------------


def test_importing_the_client_half_imports_neither_tensorflow_nor_keras() -> None:
    code = "import sys, jupyter_dtf.client.fit; sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_arrays_travel_as_numpy_in_the_precision_of_keras() -> None:
    job = job_of(prepare(model_function, {"a": X, "b": [X, X[:, :1]]}, keras.ops.convert_to_tensor(Y)))
    assert isinstance(job.data, Arrays)
    assert job.data.x["a"].dtype == np.float32
    assert [a.shape for a in job.data.x["b"]] == [(10, 2), (10, 1)]
    np.testing.assert_array_equal(job.data.y, Y)


def test_pandas_objects_become_what_keras_makes_of_them() -> None:
    job = job_of(prepare(model_function, pd.DataFrame(X, columns=["a", "b"]), pd.Series(Y)))
    assert isinstance(job.data, Arrays)
    assert (job.data.x.shape, job.data.x.dtype) == ((10, 2), np.float32)
    assert job.data.y.shape == (10, 1)


def test_validation_split_takes_the_last_examples() -> None:
    job = job_of(prepare(model_function, X, Y, validation_split=0.25, sample_weight=np.ones(10)))
    assert isinstance(job.data, Arrays)
    assert isinstance(job.validation_data, Arrays)
    assert len(job.data.x) == 7
    np.testing.assert_array_equal(job.validation_data.x, X[7:].astype("float32"))
    assert len(job.validation_data.sample_weight) == 3


def test_validation_data_takes_the_place_of_validation_split() -> None:
    job = job_of(prepare(model_function, X, Y, validation_split=0.5, validation_data=(X[:2], Y[:2])))
    assert isinstance(job.data, Arrays)
    assert len(job.data.x) == 10


def test_strings_travel_as_tensorflow_has_them() -> None:
    words = ["a", "bé\u2028", "", "c"]
    kinds = {
        "numpy": np.array(words),
        "column": np.array(words)[:, None],
        "objects": np.array(words, object)[:, None],
        "bytes": np.array([word.encode() for word in words], object),
        "tensor": keras.ops.convert_to_tensor(words, dtype="string"),
        "series": pd.Series(words),
        "strings": pd.DataFrame({"w": pd.Series(words, dtype="string")}),
        "category": pd.Series(words, dtype="category"),
    }
    job = job_of(prepare(model_function, kinds, Y[:4]))
    assert isinstance(job.data, Arrays)
    for name, array in job.data.x.items():
        assert array.shape == ((4,) if name in ("numpy", "bytes", "tensor") else (4, 1)), name
        assert [word.decode() for word in array.ravel()] == words, name


@pytest.mark.parametrize(
    ("x", "received"),
    [
        (np.array([1, "a"], object), "object with 1"),
        (pd.Series(["a", None]), "object with"),
        (np.array(["2024-01-01"], "datetime64[D]"), "datetime64"),
    ],
)
def test_arrays_of_other_things_are_refused_before_the_start(x: Any, received: str) -> None:
    with pytest.raises(InvalidInput, match=rf"must contain only numbers, only booleans or only strings.*{received}"):
        prepare(model_function, x, Y[: len(x)])


def test_a_function_of_the_context_travels() -> None:
    offset = 3
    job = job_of(prepare(model_function, lambda ctx: ctx + offset, validation_data=lambda ctx: ctx - offset))
    assert isinstance(job.data, DataFunction)
    assert isinstance(job.validation_data, DataFunction)
    assert (job.data.function(1), job.validation_data.function(1)) == (4, -2)


def _generator() -> Any:
    yield [X, Y]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": None}, "`x` must be data that keras.Model.fit accepts"),
        ({"x": _generator()}, "must yield a tuple (x,)"),
        ({"x": [[1.0, 2.0], [3.0, 4.0]]}, "np.asarray"),
        ({"x": X, "y": Y[:4]}, "must have the same length"),
        ({"x": np.float32(3)}, "at least one dimension"),
        ({"x": X, "y": Y, "batch_size": 0}, "`batch_size` must be an integer >= 1, got 0"),
        ({"x": X, "y": Y, "epochs": True}, "`epochs` must be an integer >= 1, got True"),
        ({"x": X, "y": Y, "steps_per_epoch": 1.5}, "`steps_per_epoch` must be an integer >= 1, got 1.5"),
        ({"x": X, "y": Y, "shuffle": "batch"}, "`shuffle` must be True or False"),
        ({"x": X, "y": Y, "validation_split": 1.0}, "`validation_split` must be between 0 and 1"),
        ({"x": X, "y": Y, "validation_data": (X,)}, "`validation_data` must be"),
        (
            {"x": X, "y": Y, "sample_weight": np.ones(10), "class_weight": {0: 1.0}},
            "`class_weight` must not be combined with sample_weight",
        ),
        ({"x": lambda ctx: ctx, "y": Y}, "`y` must be contained in the dataset that the function returns"),
        ({"x": lambda ctx: ctx, "batch_size": 4}, "`batch_size` must be left out for a function's"),
        ({"x": lambda ctx: ctx, "validation_split": 0.1}, "`validation_split` can only be used with arrays"),
        ({"x": X, "y": Y, "callbacks": ["no callback"]}, "`callbacks` must be keras.callbacks"),
        ({"x": X, "y": Y, "strategy": "alone"}, '`strategy` must be one of "allreduce"'),
        ({"x": X, "y": Y, "scale_lr": 2}, "`scale_lr` must be True or False, got 2"),
        ({"x": X, "y": Y, "scale_lr": True, "warmup_epochs": -1}, "`warmup_epochs` must be a number >= 0, got -1"),
        (
            {"x": X, "y": Y, "scale_lr": True, "strategy": Pipeline({"dense": "/job:worker/task:0"})},
            "got scale_lr=True with replicas=1",
        ),
        ({"x": X, "y": Y, "warmup_epochs": 3}, "`warmup_epochs` requires scale_lr=True"),
    ],
)
def test_what_cannot_work_is_refused_with_the_rule(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)):
        prepare(model_function, **arguments)


def test_single_examples_of_an_iterator_are_refused_where_the_model_takes_batches() -> None:
    for data in (iter([(X[0], X[0])] * 3), iter([X[0]] * 3)):
        with pytest.raises(InvalidInput, match="The iterator in `x` must be batched, because the model takes"):
            prepare(model_function(), data)


def test_a_scaled_learning_rate_is_warmed_up_over_five_epochs_unless_told_otherwise() -> None:
    def warmup(**arguments: Any) -> tuple[bool, float]:
        _, (job,), _ = prepare(model_function, X, Y, **arguments).program
        return job.scale_lr, job.warmup_epochs

    assert warmup() == (False, 0.0)
    assert warmup(scale_lr=True) == (True, 5.0)
    assert warmup(scale_lr=True, warmup_epochs=0) == (True, 0.0)


# -- models --------------------------------------------------------------------------------------------------------


def test_a_model_comes_back_from_its_description_with_weights_and_optimizer() -> None:
    model = model_function()
    model.optimizer.build(model.trainable_variables)
    model.optimizer.iterations.assign(5)
    packed = job_of(prepare(model, X, Y)).model
    assert isinstance(packed, keras_io.PackedModel)
    again = keras_io.unpack(packed)
    again.optimizer.build(again.trainable_variables)
    keras_io.restore(again, packed)
    for ours, theirs in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert int(again.optimizer.iterations) == 5


def test_functions_and_classes_of_the_user_travel_with_the_model() -> None:
    source = """
import keras

factor = 2.0

class Twice(keras.layers.Layer):
    def call(self, x):
        return x * factor

def loss(y_true, y_pred):
    return keras.ops.mean((y_true - y_pred) ** 2) * factor

def model():
    layers = [keras.Input((2,)), Twice(), keras.layers.Lambda(lambda x: x + factor), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile("sgd", loss)
    return model
"""
    module = types.ModuleType("__main__")
    exec(source, vars(module))
    model = module.model()
    prepared = prepare(model, X, X[:, :1])
    check = """
import pickle, sys
from jupyter_dtf.backend.task.model import keras_io
_, (job,), _ = pickle.load(sys.stdin.buffer)
model = keras_io.unpack(job.model)
keras_io.restore(model, job.model)
print(model(job.data.x).numpy().sum())
"""
    done = subprocess.run(
        [sys.executable, "-c", check], input=cloudpickle.dumps(prepared.program), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    np.testing.assert_allclose(float(done.stdout), model(X.astype("float32")).numpy().sum(), rtol=1e-5)
    assert model.layers[1].function.__name__ == "<lambda>"


def test_models_that_cannot_be_sent_are_refused_with_another_way() -> None:
    class Pair(keras.Model):
        def compile(self, first: Any, second: Any) -> None:
            super().compile(first)

    pair = Pair()
    pair.compile("sgd", "adam")
    for model, message in (
        (pair, "Pass a function that returns the compiled model"),
        (keras.Sequential([keras.Input((2,))]), "compiled"),
        (3, "a compiled keras.Model"),
    ):
        with pytest.raises(InvalidInput, match=message):
            prepare(model, X, Y)


def test_functions_that_hold_the_model_itself_are_refused() -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="first")])

    def penalized(y: Any, pred: Any) -> Any:
        return keras.ops.mean((y - pred) ** 2) + keras.ops.sum(model.layers[0].kernel ** 2)

    kernel = model.layers[0].kernel
    for loss in (penalized, lambda y, pred: keras.ops.mean(y - pred) + keras.ops.sum(kernel)):
        model.compile("sgd", loss)
        with pytest.raises(InvalidInput, match="must not hold the model itself, its layers or variables"):
            prepare(model, X, X[:, :1])


def test_variables_that_a_callback_could_change_are_not_copied_without_a_word() -> None:
    import tensorflow as tf

    for beta in (tf.Variable(0.5), keras.Variable(0.5)):
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", lambda y, pred, beta=beta: keras.ops.mean((y - pred) ** 2) * beta)
        with pytest.raises(InvalidInput, match="a variable that the model does not track"):
            prepare(model, X, X[:, :1])


LOSSES: list[float] = []
STEPS = 0


def at_an_epoch(epoch: int, logs: Any) -> None:
    LOSSES.append(logs["loss"])


def at_a_batch(batch: int, logs: Any) -> None:
    global STEPS
    STEPS += 1


class Keeping(keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.losses: list[float] = []
        self.names = {"a": 1}

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        seen = [*LOSSES, len(LOSSES)]
        seen.append(1)
        self.names["b"] = 2
        self.losses.append(logs["loss"])


def test_a_callback_that_changes_what_is_outside_of_it_is_told_that_it_stays_in_the_task() -> None:
    by_name: dict[str, float] = {}
    other: set[int] = set()

    class Closing(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            by_name["loss"] = logs["loss"]
            other.update([epoch])

    for callback, names in (
        (keras.callbacks.LambdaCallback(on_epoch_end=at_an_epoch), "LOSSES"),
        (keras.callbacks.LambdaCallback(on_train_batch_end=at_a_batch), "STEPS"),
        (keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: other.add(epoch)), "other"),
        (Closing(), "by_name, other"),
    ):
        with pytest.warns(UserWarning, match=f"changes {names}, but runs in a task"):
            prepare(model_function, X, Y, callbacks=[Keeping(), callback])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prepare(model_function, X, Y, callbacks=[Keeping(), keras.callbacks.EarlyStopping("loss")])


def test_a_callback_that_holds_the_data_is_told_that_it_has_a_copy() -> None:
    class Squares(keras.utils.PyDataset):
        level = 1

        @property
        def num_batches(self) -> int:
            return 2

        def __getitem__(self, index: int) -> Any:
            return X * self.level, X[:, :1]

    class Harder(keras.callbacks.Callback):
        def __init__(self, *held: Any) -> None:
            super().__init__()
            self.held = [held]

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.held[0][0].level = epoch

    squares, model = Squares(), keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prepare(model, squares, callbacks=[Harder()])
        prepare(model, squares, callbacks=[Harder(Squares())], validation_data=squares)
        prepare(model, X, X[:, :1], callbacks=[Harder(squares)])
    with pytest.warns(UserWarning, match=r"Squares that Harder holds will be a copy: .* of the Squares itself"):
        prepare(model, squares, callbacks=[Harder(), Harder(squares)])


def test_a_metric_keeps_its_name_wherever_it_comes_from() -> None:
    def make(power: float) -> Any:
        def apart(y: Any, pred: Any) -> Any:
            return keras.ops.mean(keras.ops.abs(y - pred) ** power)

        return apart

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=[make(1.0), make(3.0), lambda y, pred: pred])
    packed = keras_io.pack(model)
    names = []
    for compiled in (model, keras_io.unpack(packed)):
        compiled.evaluate(X.astype("float32"), X[:, :1], verbose=0)
        names.append(list(compiled.get_metrics_result()))
    assert names[0] == names[1]


def test_what_several_tasks_cannot_do_is_refused() -> None:
    layers = [keras.Input((2,)), keras.layers.BatchNormalization(synchronized=True), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile("sgd", "mse")
    with pytest.raises(InvalidInput, match="synchronized=False"):
        prepare(model, X, X[:, :1])
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", keras.losses.MeanSquaredError(reduction=None))
    with pytest.raises(InvalidInput, match="reduction=None"):
        prepare(model, X, X[:, :1])


def test_weights_that_were_frozen_without_compiling_again_are_told_of() -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    prepare(model, X, X[:, :1])
    trained_weights.remember(model)
    prepare(model, X, X[:, :1])
    model.layers[0].trainable = False
    with pytest.warns(UserWarning, match="Which weights are trainable has changed since the last fit"):
        prepare(model, X, X[:, :1])
    model.compile("sgd", "mse")
    prepare(model, X, X[:, :1])


def test_a_class_that_overrides_fit_must_take_what_tasks_pass() -> None:
    class Narrow(keras.Model):
        def fit(self, x: Any, y: Any, **arguments: Any) -> Any:
            return super().fit(x, y, **arguments)

    class Wide(keras.Model):
        def fit(self, x: Any = None, y: Any = None, **arguments: Any) -> Any:
            return super().fit(x, y, **arguments)

    for kind in (Narrow, Wide):
        inputs = keras.Input((2,))
        model = kind(inputs, keras.layers.Dense(1)(inputs))
        model.compile("sgd", "mse")
        if kind is Wide:
            prepare(model, X, X[:, :1])
        else:
            with pytest.raises(InvalidInput, match=r"got Narrow\.fit\(self, x.*missing a required argument: 'y'"):
                prepare(model, X, X[:, :1])


# -- callbacks and results -----------------------------------------------------------------------------------------


class Counter(keras.callbacks.Callback):
    run_on_all_tasks = True

    def __init__(self) -> None:
        super().__init__()
        self.count = 0


def _result(model: Any, **changes: Any) -> FitResult:
    weights = [w + 1 for w in model.get_weights()]
    return FitResult(weights, [], (None, None, None), {"loss": [0.5]}, [0], **{"callbacks": b"", **changes})


def test_a_stateful_layer_is_trained_by_one_task_or_a_pipeline() -> None:
    def prepared(strategy: Any) -> PreparedFit:
        inputs = keras.Input(batch_shape=(5, 2, 1))
        model = keras.Model(inputs, keras.layers.SimpleRNN(3, stateful=True, name="rnn")(inputs))
        model.compile("sgd", "mse")
        return prepare(model, X[:, :, None], np.zeros((10, 3)), batch_size=5, strategy=strategy)

    for strategy in ("allreduce", "ps", "mirrored"):
        prepared(strategy).check_jobs({"worker": 1, "ps": 1})
        with pytest.raises(InvalidInput, match="got rnn with stateful=True on 2 tasks"):
            prepared(strategy).check_jobs({"chief": 1, "worker": 1, "ps": 1})
    prepared(Pipeline({"rnn": "/job:worker/task:0"})).check_jobs({"worker": 2})


def test_a_callback_that_needs_tensorboard_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *more: (name != "tensorboard" and find(name, *more)) or None
    )
    board = keras.callbacks.TensorBoard("logs")
    with pytest.raises(Unavailable, match="needs TensorBoard, which is not installed: pip install tensorboard"):
        prepare(model_function(), X, Y, callbacks=[board])


def test_the_model_and_the_callbacks_of_the_caller_hold_the_results() -> None:
    model, counter = model_function(), Counter()
    model.compile(None, "sparse_categorical_crossentropy")
    before = model.get_weights()
    counter.set_model(model)  # as after an earlier fit; the model itself must not be pickled
    prepared = prepare(model, X, Y, callbacks=counter)
    packed = job_of(prepared).callbacks
    assert packed.everywhere == [True]
    for data in (packed.chiefs, packed.others):
        assert len(data) < 1000
    prepared.finish(_result(model, callbacks=cloudpickle.dumps([{"count": 7}])))
    assert counter.count == 7
    assert counter.model is model
    assert prepared.model is model
    assert model.history.history == {"loss": [0.5]}
    for ours, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, old + 1)


def test_another_process_has_the_callbacks_with_a_model_of_its_own() -> None:
    model = model_function()
    model.compile(None, "sparse_categorical_crossentropy")
    counter, seen = Counter(), keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: model.count_params())
    counter.held, counter.other = model.layers[0], seen
    job = job_of(prepare(model, X, Y, callbacks=[counter, seen]))
    found = PreparedFit.found(job)
    here, other = found._callbacks
    assert here.other is other
    found.finish(_result(model, callbacks=Pickles(lambda: model, {1: seen}).dumps([{"other": seen, "count": 3}, {}])))
    assert (here.count, here.other is other) == (3, True)
    assert found.model is not model
    assert here.held is found.model.layers[0]
    assert other.on_epoch_end(0, {}) == model.count_params()


def test_a_function_makes_the_trained_model_when_it_is_asked_for() -> None:
    made = []

    def function() -> Any:
        made.append(model_function())
        made[-1].compile(None, "mse")
        return made[-1]

    prepared = prepare(function, X, Y)
    assert prepared.name == "function"
    with pytest.raises(RuntimeError, match="no result"):
        _ = prepared.model
    trained = _result(model_function())
    prepared.finish(trained)
    assert made == []
    np.testing.assert_array_equal(prepared.model.get_weights()[0], trained.weights[0])
    assert prepared.model is made[0]


def test_a_callback_that_cannot_be_pickled_is_refused() -> None:
    counter = Counter()
    counter.lock = __import__("threading").Lock()
    with pytest.raises(InvalidInput, match="on_train_begin"):
        prepare(model_function(), X, Y, callbacks=[counter])


def test_settings_are_shown_and_keras_is_set_up_alike() -> None:
    prepared = prepare(model_function(), X, Y, batch_size=4, epochs=2, strategy=AllReduce(transport="ring"))
    chosen = {"epochs": 2, "batch_size": 4, "examples": 10, "optimizer": "Adam", "weights": 9}
    chosen |= {"learning_rate": 0.001, "loss": "sparse_categorical_crossentropy", "transport": "ring"}
    assert prepared.parameters == chosen
    assert (prepared.origin.weights, prepared.origin.data) == (9, "arrays")
    assert prepared.code[0].name == __file__  # the calling file
    job = job_of(prepared)
    assert job.strategy == AllReduce(transport="ring")
    assert job.keras_config["floatx"] == "float32"
    assert job.keras_config["epsilon"] == keras.config.epsilon()


def test_the_limits_of_keras_for_debugging_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    keras.config.set_max_epochs(2)
    try:
        with pytest.warns(UserWarning, match="Limiting epochs to 2"):
            job = job_of(prepare(model_function, X, Y, epochs=5, steps_per_epoch=2))
        assert (job.epochs, job.steps_per_epoch, job.validation_steps) == (2, 2, None)
        keras.config.set_max_steps_per_epoch(3)
        with pytest.warns(UserWarning, match="Limiting steps_per_epoch to 3"):
            job = job_of(prepare(model_function, X, Y, validation_steps=2))
        assert (job.epochs, job.steps_per_epoch, job.validation_steps) == (1, 3, 2)
    finally:
        keras.config.set_max_epochs(None)
        keras.config.set_max_steps_per_epoch(None)
    monkeypatch.setenv("KERAS_MAX_EPOCHS", "4")
    monkeypatch.delitem(sys.modules, "keras")  # Keras reads the variable when it is imported
    with pytest.warns(UserWarning, match="Limiting epochs to 4"):
        assert limited(5) == (4,)


def _two_outputs() -> Any:
    given = keras.Input((2,))
    model = keras.Model(
        given, {"a": keras.layers.Dense(1, name="a")(given), "b": keras.layers.Dense(1, name="b")(given)}
    )
    model.compile("sgd", "mse")
    return model


def test_what_keras_refuses_later_is_refused_at_once() -> None:
    targets = {"a": X[:, :1], "b": X[:, :1]}
    weights = np.ones(len(X))
    whole = tf.data.Dataset.from_tensor_slices((X, targets)).batch(5)
    generator = iter([(X, targets)] * 2)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"x": X, "y": targets, "class_weight": {0: 2.0}}, "`class_weight` is only supported for Models with a single"),
        ({"x": whole, "class_weight": {0: 2.0}}, "`class_weight` is only supported for Models with a single output"),
        (
            {"x": generator, "class_weight": {0: 2.0}},
            "`class_weight` is only supported for Models with a single output",
        ),
        ({"x": X, "y": targets, "sample_weight": {"a": weights}}, "You should provide one `sample_weight` array per"),
        ({"x": X, "y": targets, "sample_weight": [weights, None]}, "The two structures did not match"),
        ({"x": X, "y": targets, "sample_weight": np.ones((len(X), 2))}, "one scalar score per sample"),
        ({"x": X, "y": targets, "validation_data": (X, targets, {"a": weights})}, "The two structures did not match"),
        ({"x": X, "y": targets, "validation_split": 0.2, "validation_freq": "x"}, "to be a list or int, got 'x'"),
        ({"x": X, "y": targets, "validation_split": 0.2, "validation_freq": 0}, "`validation_freq` must not be 0"),
    ]
    for arguments, message in cases:
        with pytest.raises(InvalidInput, match=message):
            prepare(_two_outputs(), **arguments)
    prepare(_two_outputs(), X, targets, validation_freq="x")  # Keras ignores it without validation
    for given in (weights, {"a": weights, "b": None}):
        prepare(_two_outputs(), X, targets, sample_weight=given)


# -- checkpoints ---------------------------------------------------------------------------------------------------


def test_checkpoints_are_written_by_default_whatever_the_strategy() -> None:
    every = Checkpoint(every_steps=3)
    pipeline = Pipeline({"dense": "/job:worker/task:0"})
    apart = (ParameterServer(), ParameterServer(sync=True, backup_workers=1))
    for strategy in (AllReduce(), InGraph(), ParameterServer(sync=True), *apart, pipeline):
        assert job_of(prepare(model_function, X, Y, strategy=strategy)).checkpoint == Checkpoint()
        assert job_of(prepare(model_function, X, Y, strategy=strategy, checkpoint=True)).checkpoint == Checkpoint()
        assert job_of(prepare(model_function, X, Y, strategy=strategy, checkpoint=False)).checkpoint is None
        assert job_of(prepare(model_function, X, Y, strategy=strategy, checkpoint=every)).checkpoint == every
    with pytest.raises(
        InvalidInput, match="must use every_steps or every_epochs with .*, got every_seconds=1"
    ) as refused:
        prepare(model_function, X, Y, strategy=ParameterServer(sync=True), checkpoint=Checkpoint(every_seconds=1))
    assert refused.value.field == "checkpoint.every_seconds"
    for strategy in apart:
        seconds = Checkpoint(every_seconds=1)
        job = job_of(prepare(model_function, X, Y, strategy=strategy, checkpoint=seconds, resume="/a/7"))
        assert (job.checkpoint, job.resume) == (seconds, "/a/7")


def test_workers_that_are_apart_may_rejoin() -> None:
    for strategy in (ParameterServer(), ParameterServer(max_staleness=1), ParameterServer(sync=True, backup_workers=1)):
        assert prepare(model_function, X, Y, strategy=strategy).rejoins
    for other in (ParameterServer(sync=True), AllReduce(), InGraph()):
        assert not prepare(model_function, X, Y, strategy=other).rejoins


def test_a_prepared_fit_goes_on_from_a_checkpoint() -> None:
    prepared = prepare(model_function, X, Y, epochs=3)
    again = prepared.from_checkpoint("/runs/a/checkpoints/7")
    assert job_of(prepared).resume is None
    assert job_of(again).resume == "/runs/a/checkpoints/7"
    assert (job_of(again).epochs, job_of(again).seed) == (3, job_of(prepared).seed)
