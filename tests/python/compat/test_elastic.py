"""Tests of returning to the last commit, on two tasks."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.errors import Unavailable

from ..backend.task.gang import FakeContext, run_gang
from .tasks import begin, dense, numbers, shares


def _trained(ctx: FakeContext, failing_rank: int | None) -> dict[str, Any]:
    """Train for twelve steps, with a commit after every third. One rank fails once in step 7, and once in step 8."""
    import keras
    import tensorflow as tf

    hvd = begin(ctx)
    keras.utils.set_random_seed(7 + ctx.rank)
    model, optimizer, loss = dense(), keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy()
    x, y = (shares(data, ctx.rank, ctx.size) for data in numbers(12 * 16))
    done: list[int] = []
    resets: list[int] = []

    @tf.function
    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            value = loss(y, model(x))
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    state = hvd.elastic.TensorFlowKerasState(model, optimizer, step=0, note="")
    state.register_reset_callbacks([lambda: resets.append(state.step)])

    @hvd.elastic.run
    def train(state: Any, end: int) -> str:
        while state.step < end:
            if ctx.rank == failing_rank and state.step == 7 + len(resets) and len(resets) < 2:
                state.note = "never committed"
                raise hvd.elastic.HorovodInternalError("once more")
            step(x[state.step], y[state.step])
            done.append(state.step)
            state.step += 1
            if state.step % 3 == 0:
                state.commit()
        return "done"

    returned = train(state, 12)
    weights = [v.numpy() for v in [*model.variables, *optimizer.variables]]
    return {
        "returned": returned,
        "done": done,
        "resets": resets,
        "note": state.note,
        "weights": weights,
        "notes": ctx.notes,
    }


@pytest.fixture(scope="module")
def undisturbed() -> list[dict[str, Any]]:
    return run_gang(2, lambda ctx: _trained(ctx, None))


@pytest.mark.parametrize(("failing_rank", "machines"), [(0, "aa"), (1, "aa"), (1, "ab")])
def test_a_failure_costs_the_steps_since_the_commit(
    failing_rank: int, machines: str, undisturbed: list[dict[str, Any]]
) -> None:
    tasks = run_gang(2, lambda ctx: _trained(dataclasses.replace(ctx, machines=list(machines)), failing_rank))
    for rank, task in enumerate(tasks):
        assert task["returned"] == "done"
        notes = 2 * [("warning", "Returned to the last commit", "once more")] if rank == failing_rank else []
        assert task["notes"] == notes
        assert task["resets"] == [6, 6]
        assert task["done"] == [*range(7), *range(6, 8), *range(6, 12)]
        assert task["note"] == ""
        for weight, expected in zip(task["weights"], undisturbed[0]["weights"], strict=True):
            assert np.array_equal(weight, expected)
    assert undisturbed[0]["done"] == undisturbed[1]["done"] == list(range(12))


def _other_error(ctx: FakeContext) -> list[str]:
    """Run a program that raises an ordinary error on rank 1. Neither task returns to the last commit."""
    hvd = begin(ctx)
    state = hvd.elastic.ObjectState(value=ctx.rank)
    calls = []

    @hvd.elastic.run
    def train(state: Any) -> None:
        calls.append(state.value)
        if ctx.rank == 1:
            raise RuntimeError("a mistake")
        hvd.allreduce(1.0)

    try:
        train(state)
    except RuntimeError as error:
        return [*map(str, calls), str(error)]
    finally:
        hvd.shutdown()
    return []


def test_other_errors_are_raised() -> None:
    first, second = run_gang(2, _other_error)
    assert second == ["0", "a mistake"]  # rank 0's state
    assert first[0] == "0"
    assert "worker:1 has ended" in first[1]


def _interrupted(ctx: FakeContext) -> list[Any]:
    hvd = begin(ctx)
    state = hvd.elastic.ObjectState(value=0)
    seen = []

    @hvd.elastic.run
    def train(state: Any) -> None:
        seen.append(state.value)
        state.value += 1
        if state.value < 3:
            raise hvd.elastic.HostsUpdatedInterrupt(skip_sync=state.value == 1)

    train(state)
    return seen


def test_an_interrupt_keeps_what_was_done() -> None:
    assert run_gang(2, _interrupted) == [[0, 1, 2], [0, 1, 2]]


def _by_the_ring(ctx: FakeContext) -> str:
    hvd = begin(dataclasses.replace(ctx, machines=["a", "b"], between_machines="ring"))

    @hvd.elastic.run
    def train(state: Any) -> None:
        raise hvd.elastic.HorovodInternalError("once")

    with pytest.raises(Unavailable) as error:
        train(hvd.elastic.ObjectState(value=0))
    return str(error.value)


def test_by_the_ring_there_is_no_way_back() -> None:
    assert all("cannot restart" in said for said in run_gang(2, _by_the_ring))
