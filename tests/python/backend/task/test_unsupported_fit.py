"""Tests of ``model.fit`` in a user's program, with TensorFlow's own strategies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jupyter_dtf.errors import InvalidInput

from .gang import FakeContext, run_gang


def program(ctx: FakeContext) -> float:
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    import keras

    from jupyter_dtf.backend.task.unsupported_fit import refuse_fit_over_processes

    refuse_fit_over_processes()
    refuse_fit_over_processes()
    x, y = np.ones((8, 3), "float32"), np.ones((8, 1), "float32")

    def model() -> Any:
        made = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        made.compile("sgd", "mse")
        return made

    with strategy.scope():
        over_workers = model()
        over_workers.optimizer.build(over_workers.trainable_variables)
        with pytest.raises(InvalidInput, match=r"cluster\.fit\(model, x, y\).*dtf\.DistributedOptimizer"):
            over_workers.fit(x, y, verbose=0)
    with pytest.raises(InvalidInput, match="Keras 3 cannot fit a model across several TensorFlow processes"):
        over_workers.fit(x, y, verbose=0)  # it was created in the strategy's scope
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model().fit(x, y, verbose=0)
    alone = model()
    alone.fit(x, y, verbose=0)

    class Served(tf.distribute.experimental.ParameterServerStrategy):
        def __init__(self) -> None:
            pass

    alone._distribute_strategy = Served()
    with pytest.raises(InvalidInput, match='strategy="ps"'):
        alone.fit(x, y, verbose=0)

    @tf.function
    def step(inputs):  # type: ignore[no-untyped-def]
        def on_replica(batch):  # type: ignore[no-untyped-def]
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((over_workers(batch) - 1.0) ** 2)
            over_workers.optimizer.apply(tape.gradient(loss, over_workers.trainable_variables))
            return loss

        return strategy.reduce("SUM", strategy.run(on_replica, args=(inputs,)), axis=None)

    return float(step(tf.constant(x)))


def test_fit_over_processes_is_refused_and_all_else_goes_on() -> None:
    assert run_gang(2, program) == [2.0, 2.0]
