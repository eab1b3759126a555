"""Tests of measuring the time that Keras's own train function waits for batches."""

from __future__ import annotations

from typing import Any

import pytest

from ..gang import run_gang

CASES = [(1, False), (3, False), (1, True)]
"""The number of steps per execution, and whether they are run eagerly."""


def test_waiting_for_batches_is_measured_and_changes_nothing() -> None:
    def program(_: Any) -> list[tuple[float, float, list[Any], list[Any]]]:
        import time

        import keras
        import tensorflow as tf

        from jupyter_dtf.backend.task.fit.input_time import spent_s, timed

        slept: list[float] = []

        def read(number: Any) -> Any:
            begun = time.perf_counter()
            time.sleep(0.02)
            slept.append(time.perf_counter() - begun)
            return number

        def dataset(is_slow: bool) -> Any:
            numbers = tf.data.Dataset.range(6)
            options = tf.data.Options()
            # Nothing is read before a step asks for it.
            options.experimental_optimization.apply_default_optimizations = False
            if is_slow:
                numbers = numbers.map(lambda n: tf.ensure_shape(tf.numpy_function(read, [n], tf.int64), []))
            batches = numbers.map(lambda n: (tf.fill([4, 1], tf.cast(n, tf.float32)), tf.ones([4, 1])))
            return batches.with_options(options)

        def weights(is_timed: bool, executions: int, eagerly: bool) -> list[Any]:
            keras.utils.set_random_seed(1)
            model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
            model.compile("sgd", "mse", steps_per_execution=executions, run_eagerly=eagerly)
            model.make_train_function()
            run = timed(model.train_function) if is_timed else model.train_function
            iterator = iter(dataset(is_timed))
            for _ in range(6 // executions):
                run(iterator)
            with pytest.raises((StopIteration, tf.errors.OutOfRangeError)):
                run(iterator)
            return list(model.get_weights())

        found = []
        for case in CASES:
            slept.clear()
            before = spent_s()
            plain = weights(False, *case)
            assert spent_s() == before
            measured = weights(True, *case)
            found.append((spent_s() - before, sum(slept), plain, measured))
        return found

    (found,) = run_gang(1, program)
    for spent, slept, plain, measured in found:
        assert 0.9 * slept < spent
        assert all((a == b).all() for a, b in zip(plain, measured, strict=True))
