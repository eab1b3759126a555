"""Tests that tasks which apply an optimizer in different steps do not average the gradients of these steps."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ...gang import FakeContext, run_gang
from ..cases import digits
from ..comparison import fit


def conditional(condition: Any) -> Any:
    import keras

    class Conditional(keras.Model):
        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.steps.assign_add(1)
            tf.cond(
                condition(self, x),
                lambda: (self.optimizer.apply(gradients, self.trainable_variables), True)[1],
                lambda: False,
            )
            return {"loss": loss}

    keras.utils.set_random_seed(3)
    inputs = keras.Input((6,))
    made = Conditional(inputs, keras.layers.Dense(3)(inputs))
    made.steps = made.add_weight(shape=(), dtype="int32", initializer="zeros", trainable=False, name="steps")
    made.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    made.optimizer.build(made.trainable_variables)
    return made


def test_a_condition_that_depends_on_the_share_is_an_error_that_says_so() -> None:
    """Each task applies its optimizer in one of the two steps, so their collective calls match nevertheless."""

    def program(ctx: FakeContext) -> Any:
        x, y = digits(16)
        x[[3, 15]] = np.nan  # in the first share of the first batch, and in the second share of the second batch
        model = partial(conditional, lambda _, x: tf.math.is_finite(tf.reduce_sum(x)))
        with pytest.raises(Exception, match="train_step must apply an optimizer in the same steps on all tasks"):
            fit(ctx, "skipping", model, x, y, batch_size=8, shuffle=False, epochs=1)

    run_gang(2, program)


def test_a_condition_that_is_the_same_on_all_tasks_is_not() -> None:
    x, y = digits(32)
    alone = conditional(lambda model, _: model.steps % 2 == 0)
    alone.fit(x, y, batch_size=8, shuffle=False, epochs=1, verbose=0)
    wanted = alone.get_weights()

    def program(ctx: FakeContext) -> Any:
        model = partial(conditional, lambda model, _: model.steps % 2 == 0)
        _, result = fit(ctx, "every_other", model, x, y, batch_size=8, shuffle=False, epochs=1)
        return result and result.weights

    weights = run_gang(2, program)[0]
    for ours, theirs in zip(weights, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
