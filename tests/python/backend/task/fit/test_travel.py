"""Tests of models with state that is easily lost, trained with every strategy, against one plain Keras process."""

from __future__ import annotations

import dataclasses
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.errors import InvalidInput

from ....tiers import cut
from ..gang import FakeContext, run_gang

EVERYWHERE = [
    "inverted normalization in a nested model",
    "own files and variables",
    "two losses of one name",
    "objects without get config",
]
TABLES = ["text vectorization tf idf", "feature space"]
CHOSEN = {
    "allreduce": [
        *EVERYWHERE,
        *TABLES,
        "functions named as keras names them",
        "partials callables and methods",
        "trainable flags",
        "weights that do not decay",
        "a rate that is a function",
    ],
    "ps": [*EVERYWHERE, "text vectorization tf idf", "a rate that is a function"],
    "mirrored": [*EVERYWHERE, *TABLES],
    "pipeline": [*EVERYWHERE, "hashed crossing"],
}


def trained(strategy: str, names: list[str]) -> Callable[[FakeContext], dict[str, Any]]:
    """Return a program that gives, on the chief, each model's weights and history, from tasks and from one process."""

    def program(ctx: FakeContext) -> dict[str, Any]:
        import keras
        import tensorflow as tf

        import jupyter_dtf.client.fit as client
        from jupyter_dtf.schema.strategy import AllReduce, InGraph, ParameterServer, Pipeline
        from tests.python.backend.task import travellers

        from .comparison import _pickled
        from .in_graph.test_in_graph_replicas import devices
        from .pipeline.placed import halves

        if strategy == "mirrored":
            devices(2)
        results = {}
        for number, name in enumerate(names):
            here = dataclasses.replace(ctx, shared_dir=ctx.shared_dir / str(number), points=[], notes=[], epochs=[])
            here.shared_dir.mkdir(exist_ok=True)
            arguments: dict[str, Any] = {"batch_size": 6, "epochs": 2, "shuffle": False}
            model = job = None

            def prepared(number: int = number, name: str = name, arguments: dict[str, Any] = arguments) -> bytes:
                nonlocal model, job
                keras.utils.set_random_seed(3)
                model, x, y = travellers.MODELS[name]()
                chosen = {"allreduce": AllReduce(), "ps": ParameterServer(sync=True), "mirrored": InGraph()}
                random.seed(number)
                placed = chosen.get(strategy) or Pipeline(halves(model), microbatches=2)
                job = client.prepare(model, x, y, strategy=placed, **arguments)
                return _pickled(job.program)

            function, positional, _ = pickle.loads(ctx.by_one_client(prepared))
            result = function(*positional, here)
            if result is None:
                continue
            assert job is not None and model is not None
            job.finish(pickle.loads(_pickled(result)))
            assert result.question is not None, name
            keras.utils.set_random_seed(3)
            plain, x, y = travellers.MODELS[name]()
            words = keras.tree.map_structure(lambda a: tf.constant(a) if a.dtype.kind == "U" else a, x)
            history = plain.fit(words, y, verbose=0, **arguments).history
            results[name] = (model.get_weights(), result.history), (plain.get_weights(), history)
        return results

    return program


@pytest.mark.parametrize(
    ("strategy", "size", "servers"),
    cut(
        [("allreduce", 2, 0), ("ps", 3, 1), ("mirrored", 1, 0), ("pipeline", 2, 0)],
        keep=[("allreduce", 2, 0), ("pipeline", 2, 0)],
    ),
)
def test_tasks_train_what_the_client_has(strategy: str, size: int, servers: int) -> None:
    results = run_gang(size, trained(strategy, CHOSEN[strategy]), servers=servers)[0]
    assert list(results) == CHOSEN[strategy]
    for name, ((weights, history), (plain_weights, plain_history)) in results.items():
        for ours, theirs in zip(weights, plain_weights, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=3e-6, err_msg=name)
        assert list(history) == list(plain_history), name
        for metric, values in plain_history.items():
            np.testing.assert_allclose(history[metric], values, rtol=1e-5, err_msg=f"{name}: {metric}")


def test_dropout_of_one_task_draws_what_one_process_draws() -> None:
    results = run_gang(1, trained("allreduce", ["seeds and dropout"]))[0]
    (weights, history), (plain_weights, plain_history) = results["seeds and dropout"]
    for ours, theirs in zip(weights, plain_weights, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    np.testing.assert_allclose(history["loss"], plain_history["loss"], rtol=1e-6)


@pytest.mark.parametrize("strategy", ["pipeline", "ps"])
def test_what_a_strategy_cannot_train_is_refused_before_the_start(strategy: str) -> None:
    def program(ctx: FakeContext) -> None:
        from jupyter_dtf.client.fit import prepare
        from jupyter_dtf.schema.strategy import ParameterServer, Pipeline
        from tests.python.backend.task import travellers

        from .pipeline.placed import halves

        for name, message in (
            ("feature space", "must compute only with variables"),
            ("frozen after the optimizer was built", "Compile the model again"),
        ):
            model, x, y = travellers.MODELS[name]()
            chosen = Pipeline(halves(model)) if strategy == "pipeline" else ParameterServer()
            if strategy == "ps" and name == "feature space":
                prepare(model, x, y, strategy=chosen)
                continue
            with pytest.raises(InvalidInput, match=message):
                prepare(model, x, y, strategy=chosen)

    run_gang(1, program)
