"""Callbacks that refer to the model, to its parts or to each other act on what is trained, as in one process."""

from __future__ import annotations

import dataclasses
import pickle
import random
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np
import pytest

from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.checkpoint import Checkpoint
from jupyter_dtf.schema.strategy import AllReduce, InGraph, ParameterServer, Pipeline, Strategy

from ..gang import FakeContext, run_gang
from .cases import digits
from .in_graph.test_in_graph_replicas import devices

EPOCHS, EXAMPLES, BATCH = 4, 26, 6
PLACED = {"hidden": "/job:worker/task:0/device:CPU:0", "out": "/job:worker/task:1/device:CPU:0"}
STRATEGIES: dict[str, tuple[Strategy, int, int]] = {
    "allreduce": (AllReduce(), 2, 0),
    "in graph": (InGraph(), 1, 0),
    "parameter server": (ParameterServer(sync=True), 3, 1),
    "pipeline": (Pipeline(PLACED, microbatches=2), 2, 0),
}


def model(seed: int = 3) -> Any:
    import keras

    keras.utils.set_random_seed(seed)
    layers = keras.layers
    hidden, out = layers.Dense(5, "tanh", name="hidden"), layers.Dense(3, "softmax", name="out")
    made = keras.Sequential([keras.Input((6,)), hidden, out])
    error = keras.metrics.SparseCategoricalCrossentropy(name="error")
    made.compile(keras.optimizers.SGD(0.3, momentum=0.5), "sparse_categorical_crossentropy", metrics=[error])
    return made


def kinds() -> dict[str, Callable[[Any], list[Any]]]:
    """Return functions that create a model's callbacks, by name."""
    import keras

    class Holds(keras.callbacks.Callback):
        def __init__(self, held: Any, act: Callable[[Any, Any, int], None]) -> None:
            super().__init__()
            self.held = held
            self.act = act
            self.count = 0

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.count += 1
            self.act(self, self.held, epoch)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.last = float(self.model.metrics[-1].result()["error"]) if epoch < 0 else logs["loss"]

    def everywhere(made: Any) -> list[Any]:
        callback = Holds(made.optimizer, lambda self, held, epoch: held.learning_rate.assign(0.3 / (1 + 4 * epoch)))
        callback.run_on_all_tasks = True
        return [callback]

    def of_another(made: Any) -> list[Any]:
        counts = Holds(None, lambda self, held, epoch: None)

        def act(self: Any, held: Any, epoch: int) -> None:
            self.model.optimizer.learning_rate = 0.3 / (1 + 5 * held.count)

        return [counts, Holds(counts, act)]

    def by_a_metric(self: Any, held: Any, epoch: int) -> None:
        if epoch:
            self.model.optimizer.learning_rate = 0.1 * self.last
        assert held in (self.model._compile_metrics._user_metrics or [held])

    def clear(self: Any, held: Any, epoch: int) -> None:
        held.iterations.assign(0)
        for slot in held.variables[2:]:
            slot.assign(slot * 0)

    def halve(self: Any, held: Any, epoch: int) -> None:
        held.assign(held * 0.5)

    def rates(made: Any) -> list[Any]:
        def at_begin(epoch: int, logs: Any) -> None:
            made.optimizer.learning_rate.assign(0.3 / (1 + 5 * epoch))

        return [keras.callbacks.LambdaCallback(on_epoch_begin=at_begin)]

    return {
        "a function about the model": rates,
        "the optimizer": lambda made: [
            Holds(made.optimizer, lambda self, held, epoch: setattr(held, "learning_rate", 0.3 / (1 + 4 * epoch)))
        ],
        "the optimizer, everywhere": everywhere,
        "another callback": of_another,
        "a variable": lambda made: [Holds(made.layers[0].kernel, halve)],
        "a layer": lambda made: [Holds([made.layers[1]], lambda self, held, epoch: halve(self, held[0].bias, epoch))],
        "the optimizer's slots": lambda made: [Holds(made.optimizer, clear)],
        "a metric": lambda made: [Holds(made._compile_metrics._user_metrics[0], by_a_metric)],
    }


def train(ctx: FakeContext, name: str, strategy: Strategy, seed: int = 3, **arguments: Any) -> Any:
    """Do what the client (the first task) and then this task does. Return the model and its callbacks on the chief."""
    from jupyter_dtf.client.fit import prepare

    job: Any = None
    made = callbacks = None
    kind = arguments.pop("kind", name)

    def prepared() -> bytes:
        nonlocal job, made, callbacks
        random.seed(5)
        made = model(seed)
        callbacks = kinds()[kind](made)
        given: dict[str, Any] = {"batch_size": BATCH, "epochs": EPOCHS, "shuffle": False, **arguments}
        job = prepare(made, *digits(EXAMPLES), strategy=strategy, callbacks=callbacks, **given)
        return bytes(cloudpickle.dumps(job.program))

    program, positional, _ = pickle.loads(ctx.by_one_client(prepared))
    fresh: dict[str, Any] = {"points": [], "notes": [], "epochs": [], "progressed": [], "saved": []}
    here = dataclasses.replace(ctx, shared_dir=ctx.shared_dir / name, run_dir=ctx.run_dir / name, **fresh)
    here.shared_dir.mkdir(exist_ok=True)
    result = program(*positional, here)
    if result is None:
        return None
    job.finish(pickle.loads(cloudpickle.dumps(result)))
    return made, callbacks


def _values(made: Any) -> list[Any]:
    return [variable.numpy() for variable in (*made.weights, *made.optimizer.variables)]


def alone(ctx: FakeContext) -> dict[str, Any]:
    trained = {}
    for name, callbacks in kinds().items():
        made = model()
        given: dict[str, Any] = {"batch_size": BATCH, "epochs": EPOCHS, "shuffle": False, "verbose": 0}
        history = made.fit(*digits(EXAMPLES), callbacks=callbacks(made), **given).history
        trained[name] = _values(made), history
    return trained


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    trained: dict[str, Any] = run_gang(1, alone)[0]
    return trained


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_they_act_on_what_is_trained(strategy: str, expected: dict[str, Any]) -> None:
    chosen, size, servers = STRATEGIES[strategy]

    def program(ctx: FakeContext) -> dict[str, Any]:
        if isinstance(chosen, InGraph):
            devices(2)
        found = {}
        for name in kinds():
            trained = train(ctx, name, chosen)
            if trained is not None:
                made, callbacks = trained
                own = [made, made.optimizer, *made.layers, made.layers[0].kernel, *callbacks]
                held = getattr(callbacks[-1], "held", made)
                if name not in ("a layer", "a metric"):
                    assert any(held is part for part in own), name
                if name == "a layer":
                    assert held[0] is made.layers[1]
                if name == "a metric":
                    assert held is made._compile_metrics._user_metrics[0]
                found[name] = _values(made), made.history.history
        return found

    received = run_gang(size, program, servers=servers)[0]
    for name, (weights, history) in expected.items():
        for ours, theirs in zip(received[name][0], weights, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(received[name][1]["loss"], history["loss"], rtol=1e-4, err_msg=name)


def test_they_act_on_it_after_a_checkpoint(expected: dict[str, Any]) -> None:
    """A checkpoint contains the callbacks' attributes, which must not contain another copy of the model."""

    def program(ctx: FakeContext) -> Any:
        found = {}
        for name in ("a function about the model", "another callback", "the optimizer, everywhere"):
            train(ctx, name, AllReduce(), checkpoint=Checkpoint(every_epochs=1, keep=9))
            path = str(ctx.run_dir / name / "checkpoints" / "10")
            more: dict[str, Any] = {"kind": name, "seed": 9, "resume": path, "checkpoint": False}
            trained = train(ctx, f"{name} again", AllReduce(), **more)
            found[name] = trained and _values(trained[0])
        return found

    for name, weights in run_gang(2, program)[0].items():
        for ours, theirs in zip(weights, expected[name][0], strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5, err_msg=name)


def test_a_copy_that_would_not_be_trained_is_refused() -> None:
    def program(ctx: FakeContext) -> str:
        import keras

        from jupyter_dtf.client.fit import prepare

        made = model()
        encoder = keras.Model(made.inputs, made.layers[0].output, name="encoder")
        teacher = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
        look = keras.callbacks.LambdaCallback
        prepare(made, *digits(12), callbacks=[look(on_epoch_end=lambda epoch, logs: teacher.get_weights())])
        with pytest.raises(InvalidInput) as raised:
            prepare(made, *digits(12), callbacks=[look(on_epoch_end=lambda epoch, logs: encoder.get_weights())])
        return str(raised.value)

    (message,) = run_gang(1, program)
    assert "shares weights with the model that is trained" in message
    assert "got 'encoder' with" in message
