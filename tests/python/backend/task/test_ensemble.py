"""Tests of ensembles: the combination of the members' outputs, and the members' devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jupyter_dtf.errors import InvalidInput

from .gang import FakeContext, run_gang


def network(seed: int) -> Any:
    import keras

    keras.utils.set_random_seed(seed)
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(3, "softmax")])


def subclassed() -> Any:
    import keras

    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.out = keras.layers.Dense(3, "softmax")

        def call(self, x: Any) -> Any:
            return self.out(x)

    model = Own()
    model(np.zeros((1, 6), "float32"))
    return model


X = np.random.default_rng(0).normal(size=(20, 6)).astype("float32")


def members_on_tasks(ctx: FakeContext) -> Any:
    """Call an ensemble over the tasks. Return the chief's results: outputs, alone and combined, and devices."""
    import tensorflow as tf
    from tensorflow.python.eager import context

    from jupyter_dtf.backend.task.ensemble import ensemble

    if not ctx.is_chief:
        ctx.server.join()
        return None
    tf.config.experimental_connect_to_cluster(ctx.cluster_spec.as_tf(), job_name="worker", task_index=0)
    models = [network(seed) for seed in range(3)]
    alone = np.stack([model.predict(X, verbose=0) for model in models])
    together = ensemble(models)
    context.context().enable_run_metadata()
    results = {
        "mean": together.predict(X, batch_size=8, verbose=0),
        "vote": ensemble(models, combine="vote")(X).numpy(),
        "function": ensemble(models, combine=lambda outputs: tf.reduce_max(outputs, axis=0))(X).numpy(),
    }
    where = {
        node.device
        for function in context.context().export_run_metadata().function_graphs
        for graph in function.partition_graphs
        for node in graph.node
        if "MatMul" in node.op
    }
    variables = [{weight.value.device for weight in member.weights} for member in together.members]
    return alone, results, together.devices, where, variables


def test_members_stand_on_their_devices_and_speak_together() -> None:
    (alone, results, devices, where, variables), _ = run_gang(2, members_on_tasks)
    np.testing.assert_allclose(results["mean"], alone.mean(0), rtol=1e-5)
    np.testing.assert_allclose(results["function"], alone.max(0), rtol=1e-5)
    np.testing.assert_allclose(results["vote"], np.eye(3)[alone.argmax(-1)].mean(0), rtol=1e-5)
    zero, one = (f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in (0, 1))
    assert devices == (zero, one, zero)
    assert variables == [{zero}, {one}, {zero}]
    assert where == {zero, one}


def test_functions_subclasses_and_evaluation() -> None:
    def program(ctx: FakeContext) -> Any:
        from jupyter_dtf.backend.task.ensemble import ensemble

        together = ensemble([lambda: network(1), subclassed], ["CPU:0"])
        together.compile(loss="sparse_categorical_crossentropy", metrics=["accuracy"])
        loss, accuracy = together.evaluate(X, np.zeros(20), verbose=0)
        predicted = together.predict(X, verbose=0)
        return loss, accuracy, predicted

    loss, accuracy, predicted = run_gang(1, program)[0]
    assert loss == pytest.approx(-np.log(predicted[:, 0]).mean(), rel=1e-4)
    assert accuracy == pytest.approx((predicted.argmax(1) == 0).mean())


def test_what_cannot_work_is_refused_with_the_rule() -> None:
    def program(ctx: FakeContext) -> list[str]:
        import keras

        from jupyter_dtf.backend.task.ensemble import ensemble

        errors = []
        for arguments in (
            ([],),
            ([network(0)], None, "loudest"),
            ([network(0)], ["/job:worker/task:3"]),
            ([network(0)], ["worker three"]),
            (["a model"],),
            ([keras.Sequential([keras.layers.Dense(3)])],),
        ):
            with pytest.raises(InvalidInput) as raised:
                ensemble(*arguments)
            errors.append(str(raised.value))
        return errors

    none, combine, device, malformed, text, unbuilt = run_gang(1, program)[0]
    assert none == "`models` must have at least one model, got none"
    assert combine == "`combine` must be mean, vote or a function of the stacked outputs, got 'loudest'"
    assert device.startswith("`devices` must be among /device:CPU:0, got") or "CPU:0, got '/job:worker" in device
    assert "'worker three'" in malformed
    assert "`models` must be Keras models" in text
    assert "must be built" in unbuilt
