from __future__ import annotations

import keras
import pytest
import tensorflow as tf

from jupyter_dtf.backend.task.fit.learning_rate import LinearScaling, scaled


@pytest.mark.parametrize("floatx", ["float32", "float64"])
def test_the_rate_is_multiplied_while_it_is_applied_in_the_type_that_it_has(floatx: str) -> None:
    before = keras.config.floatx()
    keras.config.set_floatx(floatx)
    try:
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build([keras.Variable([1.0])])
        factor = LinearScaling(4, warmup_steps=10).factor(tf.constant(5))
        with scaled(optimizer, factor):
            rate = optimizer._get_current_learning_rate()
            assert rate.dtype == floatx
            assert float(rate) == pytest.approx(0.25)
        assert float(optimizer._get_current_learning_rate()) == pytest.approx(0.1)
    finally:
        keras.config.set_floatx(before)
