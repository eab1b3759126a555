"""Tests of asynchronous training: the result that workers share, and how far one may get ahead of another."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.schema.strategy import ParameterServer

from ...gang import FakeContext, run_gang
from ..cases import CASES, digits
from ..comparison import alone, compare, distributed
from ..outside_cases import CALLBACK_CASES
from .programs import fit, metric, sgd

# With one worker, nothing is stale: it trains like one process, however variables are distributed over servers.
ON_ONE = ("momentum and clipping", "steps per execution", "learning rate schedule", "early stopping")
SET = "weights that are set after each batch"
OVER_TWO = ("adam, class weights", "masked sequences, embedding", "several inputs and outputs")


def test_one_worker_does_what_one_process_does() -> None:
    known = {**CASES, SET: CALLBACK_CASES[SET]}
    expected = alone({name: known[name] for name in (*ON_ONE, SET, *OVER_TWO)})
    strategy = ParameterServer(split_bytes=100)
    for names, servers in (((*ON_ONE, SET), 1), (OVER_TWO, 2)):
        cases = {name: known[name] for name in names}
        received = run_gang(1 + servers, distributed(cases, strategy=strategy), servers=servers)[0]
        for name, case in cases.items():
            compare(case, expected[name], received[name])


def too_late(ctx: FakeContext) -> Any:
    """Start a worker that replaces a lost one after its server has ended."""
    if ctx.job_name == "ps":
        return "ended"
    x, y = digits(20)
    return fit(dataclasses.replace(ctx, rejoins=True), "late", sgd(), x, y, strategy="ps")[1]


def test_a_worker_that_comes_when_all_others_have_ended_has_nothing_to_do() -> None:
    assert run_gang(2, too_late, servers=1) == [None, "ended"]


def beside_a_connection_that_ends_at_once(ctx: FakeContext) -> Any:
    """Train a worker while another one connects, and disconnects before it has identified itself."""
    from jupyter_dtf.backend.task.fit.parameter_server.server_addresses import Places

    def data_fn(ctx: Any) -> Any:
        import tensorflow as tf

        Places(ctx).reach(0).close()
        return tf.data.Dataset.from_tensor_slices(digits(20)).batch(5)

    return fit(ctx, "beside", sgd(), data_fn, strategy="ps")[1]


def test_a_worker_that_dies_while_it_connects_ends_no_server() -> None:
    result, served = run_gang(2, beside_a_connection_that_ends_at_once, servers=1)
    assert result.updates["worker:0"]["applied"] == 4
    assert served is None


def test_a_weight_that_only_the_chief_gets_is_named() -> None:
    """Asynchronous workers have no common step in which the others could receive the weight."""

    def program(ctx: FakeContext) -> list[str]:
        case = CALLBACK_CASES["a weight that rises before each batch"]
        arguments: dict[str, Any] = {"batch_size": 10, "epochs": 2, "strategy": "ps"}
        here, _ = fit(ctx, "set", case.model(), *digits(40), callbacks=case.callbacks(), **arguments)
        return [title for level, title, _ in here.notes if level == "warning"]

    chief, other, _ = run_gang(3, program, servers=1)
    assert [title.partition("/")[2] for title in chief] == ["rate is set on the chief alone"]
    assert other == []


def apart(ctx: FakeContext) -> Any:
    """Train a model with batch normalization on two workers that have unequal amounts of data."""
    import keras

    class Own(keras.callbacks.Callback):
        run_on_all_tasks = True

        def on_train_end(self, logs: Any = None) -> None:
            np.savez(ctx.run_dir / f"{ctx.rank}.npz", *(v.numpy() for v in self.model.non_trainable_weights))

    def model() -> Any:
        keras.utils.set_random_seed(3)
        layers = keras.layers
        model = keras.Sequential(
            [keras.Input((6,)), layers.Dense(8), layers.BatchNormalization(), layers.Dense(3, activation="softmax")]
        )
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        return model

    def data_fn(ctx: Any) -> Any:
        import tensorflow as tf

        seen["size"] = ctx.size
        return tf.data.Dataset.from_tensor_slices(digits(50 if ctx.rank else 70)).batch(5)

    seen: dict[str, Any] = {}
    here, result = fit(
        ctx, "apart", model, data_fn, epochs=2, callbacks=[Own()], validation_data=digits(40), strategy="ps"
    )
    seen["moving"] = list(np.load(ctx.run_dir / f"{ctx.rank}.npz").values()) if ctx.job_name == "worker" else []
    return here, seen, result


def test_each_worker_goes_through_its_own_data_and_all_gradients_count() -> None:
    (chief, seen, result), (other, others, _), *servers = run_gang(4, apart, servers=2)
    assert [after for *_, after in servers] == [None, None]
    assert seen["size"] == others["size"] == 2
    assert [step for step, _ in chief.points if step][-1] == 28
    assert [step for step, _ in other.points][-1] == 20
    assert result.updates == {
        "worker:0": {"scheduled": 28, "applied": 28, "dropped": 0, "repeated": 0},
        "worker:1": {"scheduled": 20, "applied": 20, "dropped": 0, "repeated": 0},
    }
    assert ("info", "Updates", "48 scheduled, 48 applied, 0 dropped, 0 lost, 0 received twice and applied once") in (
        chief.notes
    )
    iterations = result.optimizer[0]
    assert iterations == 48
    assert min(metric(chief, "staleness") + metric(other, "staleness")) >= 0
    assert len(metric(other, "staleness")) == 20
    assert set(result.history) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert chief.progressed[-1] == (28, 28)
    for index, moving in enumerate(m for m in range(len(result.weights)) if m in (4, 5)):
        expected = (seen["moving"][index] + others["moving"][index]) / 2
        np.testing.assert_allclose(result.weights[moving], expected, rtol=1e-6)


def paced(bound: int | None) -> Callable[[FakeContext], Any]:
    """Return a program in which, after five steps, one worker waits until the other is ``bound`` steps ahead.

    It then waits a little longer. Without a bound, the other gets 10 steps ahead.
    """

    def program(ctx: FakeContext) -> Any:
        import time

        import keras

        def wait_for(name: str) -> None:
            while not (ctx.run_dir / name).exists():
                time.sleep(0.01)

        class Pace(keras.callbacks.Callback):
            run_on_all_tasks = True

            def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
                if batch == 5 and ctx.rank == 0:
                    wait_for("slow one waits")
                elif batch == 5:
                    (ctx.run_dir / "slow one waits").touch()
                    wait_for("fast one is ahead")
                    time.sleep(0.2)  # the other would get further ahead if nothing stopped it

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                if ctx.rank == 0 and batch + 1 == 5 + (10 if bound is None else bound):
                    (ctx.run_dir / "fast one is ahead").touch()

        strategy = ParameterServer(max_staleness=bound)
        here, _ = fit(ctx, "paced", sgd, *digits(80), batch_size=4, callbacks=[Pace()], strategy=strategy)
        return here

    return program


@pytest.mark.parametrize("bound", [None, 2])
def test_a_worker_gets_as_far_ahead_as_the_bound_allows(bound: int | None) -> None:
    chief, slow, _ = run_gang(3, paced(bound), servers=1)
    assert len(metric(chief, "staleness")) == len(metric(slow, "staleness")) == 20
    stalest = max(metric(slow, "staleness"))
    # The other has made at least two steps when the slow one last gets weights, and at most eight when it continues.
    assert stalest >= 10 if bound is None else stalest <= 6
