"""Tests of the fields of ``dtf.AllReduce``, and of a scaled learning rate, with real processes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.strategy import AllReduce

from ....tiers import cut
from ..gang import FakeContext, run_gang
from .comparison import Recorded, Trained, compare, distributed, fit, selected
from .strategy_cases import STRATEGY_CASES, sentences, warm, words


@pytest.fixture(scope="module")
def trained(request: pytest.FixtureRequest) -> Trained:
    return Trained(STRATEGY_CASES, selected(request))


@pytest.mark.parametrize(
    ("name", "size"),
    cut(
        [(name, size) for name, case in STRATEGY_CASES.items() for size in case.sizes],
        keep=[(name, 2 if 2 in case.sizes else case.sizes[0]) for name, case in STRATEGY_CASES.items()],
    ),
)
def test_tasks_do_what_one_process_does(name: str, size: int, trained: Trained) -> None:
    expected, received = trained(name, size)
    compare(STRATEGY_CASES[name], expected, received[0])


@pytest.mark.parametrize("name", ["everything at once", "bf16"])
def test_the_ring_does_the_same(name: str, trained: Trained) -> None:
    results = run_gang(2, distributed({name: STRATEGY_CASES[name]}, "ring"))  # can be set up only once per process
    compare(STRATEGY_CASES[name], trained(name, 2)[0], results[0][name])


def _points(task: Recorded, metric: str) -> dict[float, float]:
    return {step: values[metric] for step, values in task.more["ctx"].points if metric in values}


def test_the_learning_rate_that_is_reported_is_the_one_applied(trained: Trained) -> None:
    _, received = trained("learning rate scaled and warmed up", 3)
    rates = _points(received[0], "learning_rate")
    np.testing.assert_allclose(list(rates.values()), [0.05 * warm(3, step, 8) for step in range(15)], rtol=1e-6)
    assert rates[1] == pytest.approx(0.05)
    assert rates[15] == pytest.approx(0.15)
    assert received[0].more["rate"] == pytest.approx(0.05), "the model keeps the rate of one task"


def test_examples_per_second_count_those_that_have_been_applied(trained: Trained) -> None:
    _, received = trained("two passes a step", 2)
    assert list(_points(received[0], "examples_per_second")) == [2, 4, 5, 7, 9, 10]


@pytest.mark.parametrize("sparse", ["gather", "dense"])
def test_the_optimizer_of_an_embedding_gets_rows_or_the_table(sparse: str) -> None:
    def program(ctx: FakeContext) -> list[str]:
        import keras

        seen = []

        class Looking(keras.optimizers.SGD):
            def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
                seen.append(type(gradient).__name__ if variable.shape == (9, 4) else "")
                super().update_step(gradient, variable, learning_rate)

        fit(ctx, "looking", lambda: words(Looking(0.1)), **sentences(), strategy=AllReduce(sparse=sparse), check=False)
        return [name for name in seen if name]

    for seen in run_gang(2, program):
        assert set(seen) == {"IndexedSlices" if sparse == "gather" else "SymbolicTensor"}


def test_a_step_is_traced_once() -> None:
    """Tracing takes most of the time of a small model's first step."""

    def program(ctx: FakeContext) -> int:
        import keras

        traced = []

        class Counting(keras.optimizers.SGD):
            def apply(self, grads: Any, trainable_variables: Any = None) -> None:
                traced.append(1)
                super().apply(grads, trainable_variables)

        fit(ctx, "once", lambda: words(Counting(0.1)), **sentences(), check=False)
        return len(traced)

    assert run_gang(2, program) == [1, 1]


def test_passes_over_datasets_of_unknown_length_end_with_the_data() -> None:
    """With 5 and 3 batches of 3 examples on two tasks, and two passes per step, each example is used once per epoch."""
    lengths = (5, 3)

    def batches(rank: int) -> list[Any]:
        data = sentences()
        starts = range(0, 24, 3)[: lengths[0]] if rank == 0 else range(0, 24, 3)[lengths[0] :]
        return [(data["x"][s : s + 3], data["y"][s : s + 3]) for s in starts]

    def model() -> Any:
        import keras

        keras.utils.set_random_seed(3)
        return words(keras.optimizers.SGD(0.5))

    def program(ctx: FakeContext) -> Any:
        import tensorflow as tf

        def data_fn(ctx: Any) -> Any:
            signature = (tf.TensorSpec((None, 5), tf.int64), tf.TensorSpec((None,), tf.int64))
            return tf.data.Dataset.from_generator(lambda: iter(batches(ctx.rank)), output_signature=signature)

        strategy = AllReduce(backward_passes_per_step=2)
        _, result = fit(ctx, "unknown", model, data_fn, epochs=2, strategy=strategy)
        with pytest.raises(InvalidInput, match="unless the length of an epoch is known"):
            fit(ctx, "warm", model, data_fn, strategy=strategy, scale_lr=True)
        return result and result.weights

    def one_process(ctx: FakeContext) -> Any:
        expected = model()
        for _ in range(2):
            for step in range(0, max(lengths), 2):
                parts = [batch for rank in range(2) for batch in batches(rank)[step : step + 2]]
                expected.train_on_batch(*map(np.concatenate, zip(*parts, strict=True)))
        return expected.get_weights()

    received, expected = run_gang(2, program)[0], run_gang(1, one_process)[0]
    for ours, theirs in zip(received, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-6)


def test_stopping_is_agreed_on_in_the_next_exchange() -> None:
    def program(ctx: FakeContext) -> list[float]:
        import keras

        asked = dataclasses.replace(ctx, stop_at_step=4 if ctx.rank == 1 else 0)
        strategy = AllReduce(backward_passes_per_step=3)
        here, _ = fit(asked, "stop", lambda: words(keras.optimizers.SGD(0.1)), **sentences(2), strategy=strategy)
        return [step for step, values in here.points if "learning_rate" in values]

    assert run_gang(2, program) == [list(range(1, 7))] * 2
