"""Tests of the cooperation between workers and parameter servers: state that is returned, stopping, and failures."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.schema.strategy import ParameterServer

from ...gang import FakeContext, run_gang
from ..cases import dense, digits
from ..strategy_cases import sentences, words
from .programs import fit, metric, sgd


def in_two_runs(ctx: FakeContext) -> Any:
    """Train in two runs, with Adam's slots sent to the servers and returned with the model, and in one process.

    Return the variables of both models on the chief.
    """
    import keras

    from jupyter_dtf.client.fit import prepare

    x, y = digits(48)
    keras.utils.set_random_seed(3)
    model, alone = dense("adam"), dense("adam")
    alone.set_weights(model.get_weights())
    for run in range(2):
        job = prepare(
            model, x, y, batch_size=12, epochs=2, shuffle=False, strategy=ParameterServer(sync=True, split_bytes=50)
        )
        here = dataclasses.replace(ctx, shared_dir=ctx.shared_dir / str(run))
        here.shared_dir.mkdir(exist_ok=True)
        result = job.program[0](*job.program[1], here)
        if result is not None:
            job.finish(result)
        else:
            model = dense("adam")  # the client sends the chief's model
    if not ctx.is_chief:
        return None
    alone.fit(x, y, batch_size=12, epochs=4, shuffle=False, verbose=0)
    return [[v.numpy() for v in [*m.weights, *m.optimizer.variables]] for m in (model, alone)]


def test_slots_of_all_servers_come_back_and_are_gone_on_from() -> None:
    for ours, theirs in zip(*run_gang(4, in_two_runs, servers=2)[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-7)


def with_empty_batches(ctx: FakeContext) -> Any:
    """Train on batches of which some are empty; return the chief's variables, and those of one process."""
    import keras
    import tensorflow as tf

    def batches(x: Any, y: Any) -> Any:
        parts = tf.data.Dataset.from_tensor_slices((tf.reshape(x, (4, 6, -1)), tf.reshape(y, (4, 6))))
        return parts.enumerate().map(lambda i, batch: tf.nest.map_structure(lambda a: a[: 6 * (i % 2)], batch))

    results = []
    given = sentences()
    optimizers = (lambda: dense("adam"), digits(24)), (lambda: words("adam"), (given["x"][:24], given["y"][:24]))
    for number, (make, (x, y)) in enumerate(optimizers):
        keras.utils.set_random_seed(3)
        alone = make()
        keras.utils.set_random_seed(3)
        model, data = make(), batches(x.astype("float32") if number == 0 else x, y)
        strategy = ParameterServer(sync=True, split_bytes=50)
        _, result = fit(ctx, str(number), model, data, epochs=2, strategy=strategy)
        if result is not None:
            alone.fit(data, epochs=2, verbose=0)
            ours = [*result.weights, result.optimizer[0]]
            results.append((ours, [*alone.get_weights(), alone.optimizer.iterations.numpy()]))
    return results


def test_batches_without_examples_are_steps() -> None:
    for ours, theirs in run_gang(4, with_empty_batches, servers=2)[0]:
        assert theirs[-1] == 8
        for own, expected in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(own, expected, rtol=2e-5, atol=1e-6)


def callbacks_of_the_chief(ctx: FakeContext) -> Any:
    import keras

    class Meddling(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.model.optimizer.learning_rate = 1e-9 * (epoch + 1)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.set_weights([np.full_like(w, epoch + 1) for w in self.model.get_weights()])

    class Ending(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.stop_training = epoch == 1

    class AfterTheChief(keras.callbacks.Callback):
        run_on_all_tasks = True

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            while ctx.rank == 1 and not (ctx.run_dir / "begun").exists():
                time.sleep(0.01)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            (ctx.run_dir / "begun").touch()

    x, y = digits(64)
    arguments = {"batch_size": 4, "strategy": "ps"}
    callbacks = [Meddling(), AfterTheChief()]
    meddled, result = fit(ctx, "meddling", sgd, x, y, epochs=3, callbacks=callbacks, **arguments)
    stopped = dataclasses.replace(ctx, stop_at_step=5 if ctx.rank == 1 else 0)
    asked, kept = fit(stopped, "asked", sgd, x, y, epochs=10_000, **arguments)
    ended, _ = fit(ctx, "ending", sgd, x, y, epochs=10_000, callbacks=[Ending()], **arguments)
    return meddled, result, asked, kept, ended


def test_what_the_chief_decides_reaches_the_servers_and_all_workers() -> None:
    chief, other, _ = run_gang(3, callbacks_of_the_chief, servers=1)
    for weights in chief[1].weights:
        np.testing.assert_allclose(weights, 3, atol=1e-6)
    assert metric(chief[0], "learning_rate")[-1] == pytest.approx(3e-9)
    assert max(metric(other[0], "learning_rate")) < 1e-8
    assert metric(other[2], "loss")  # it requested a stop at its fifth step
    assert len(metric(other[2], "loss")) == 5
    assert len(metric(chief[2], "loss")) < 1000
    assert chief[3].updates["worker:1"]["applied"] == 5
    assert len(chief[4].epochs) == 2
    assert len(metric(other[4], "loss")) < 160_000


def dying_server(ctx: FakeContext) -> Any:
    import keras
    import tensorflow as tf

    class Dying(keras.optimizers.SGD):
        """An optimizer that ends the process of ps:1 when it is applied after five updates."""

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            def look(iterations: Any) -> Any:
                if ctx.task == "ps:1" and iterations == 5:
                    os._exit(3)
                return iterations

            with tf.control_dependencies([tf.numpy_function(look, [self.iterations], tf.int64)]):
                super().update_step(gradient, variable, learning_rate)

    def model() -> Any:
        return dense(Dying(0.1))

    try:
        fit(ctx, "dying", model, *digits(64), batch_size=4, epochs=10_000, strategy=ParameterServer(sync=True))
    except Exception as error:
        return str(error)
    return "nothing happened"


def test_workers_name_the_server_that_has_gone() -> None:
    first, second, *_ = run_gang(4, dying_server, may_die=True, servers=2)
    assert "The connection to ps:1 was lost" in first
    assert "The connection to ps:" in second


def dying_worker(ctx: FakeContext) -> Any:
    import keras

    class Dying(keras.callbacks.Callback):
        run_on_all_tasks = True

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if ctx.rank == 1 and batch == 3:
                os._exit(3)

    try:
        fit(ctx, "dying", sgd, *digits(64), batch_size=4, callbacks=[Dying()], strategy=ParameterServer(sync=True))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing happened"


def test_a_server_names_the_worker_that_has_gone() -> None:
    chief, gone, server = run_gang(3, dying_worker, may_die=True, servers=1)
    assert gone is None
    assert server == "RuntimeError: The connection to worker:1 was lost before its training ended"
    assert "The connection to ps:0 was lost" in chief


def skipping(ctx: FakeContext) -> Any:
    """Train with a ``train_step`` that skips gradients that are not finite, which only one worker has."""
    import keras
    import tensorflow as tf

    class Skipping(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            x, y = data[:2]
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True))
            gradients = tape.gradient(loss, self.trainable_variables)
            is_finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(each)) for each in gradients])
            tf.cond(
                is_finite,
                lambda: (self.optimizer.apply(gradients, self.trainable_variables), True)[1],
                lambda: False,
            )
            return {"loss": loss}

    def model() -> Any:
        made = Skipping([keras.Input((6,)), keras.layers.Dense(3)])
        made.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        made.optimizer.build(made.trainable_variables)
        return made

    x, y = digits(16)
    x[7] = np.nan
    try:
        fit(ctx, "skipping", model, x, y, batch_size=8, shuffle=False, strategy=ParameterServer(sync=True))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing happened"


def test_workers_of_which_only_some_apply_an_optimizer_do_not_wait_for_each_other_forever() -> None:
    first, second, _ = run_gang(3, skipping, servers=1)
    for said in (first, second):
        assert "train_step must apply an optimizer in every step on all tasks" in said
        assert "worker:0 applies an optimizer, worker:1 does not" in said


def not_divided(ctx: FakeContext) -> Any:
    """Train with Adafactor, which has variables that are not slots, so that two servers cannot share them."""
    import keras

    if not ctx.is_chief:
        return ""  # a run ends with its chief; here, the others would wait for it
    try:
        fit(ctx, "adafactor", lambda: dense(keras.optimizers.Adafactor()), *digits(20), strategy="ps")
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing happened"


def test_an_optimizer_that_cannot_be_divided_is_refused() -> None:
    chief, *_ = run_gang(3, not_divided, servers=2)
    assert chief.startswith("InvalidInput: `strategy`: with several ps tasks, an optimizer must update each variable")
