"""Tests of backup workers: synchronous training that does not wait for the slowest worker."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.backend.task.fit.checks import Asked
from jupyter_dtf.backend.task.fit.strategies import validate
from jupyter_dtf.client.submitting import training_jobs
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.strategy import ParameterServer

from ..... import patience
from ...gang import FakeContext, run_gang
from ..cases import digits
from .programs import fit, metric, sgd

EPOCHS, STEPS = 3, 10


def one_is_slow(ctx: FakeContext) -> Any:
    """Train three workers on equal shares. One of them begins no step before another one has begun the next."""
    import keras

    class Slow(keras.callbacks.Callback):
        run_on_all_tasks = True

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if ctx.rank == 0:
                (ctx.run_dir / f"{self.epoch}-{batch}").touch()
            elif ctx.rank == 1 and batch < STEPS - 1:
                while not (ctx.run_dir / f"{self.epoch}-{batch + 1}").exists():
                    time.sleep(patience.LOOK_EVERY_S)

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.epoch = epoch

    x, y = digits(12 * STEPS)
    strategy = ParameterServer(sync=True, backup_workers=1)
    return fit(
        ctx, "slow", sgd, x, y, batch_size=12, epochs=EPOCHS, callbacks=[Slow()], shuffle=False, strategy=strategy
    )


def accepted(ctx: FakeContext) -> set[int]:
    """Return the steps of the run whose updates contain this task's gradients."""
    steps, before, dropped = set(), 0, 0.0
    for step, values in ctx.points:
        if "dropped" in values:
            if values["dropped"] == dropped:
                steps.add(before)
            before, dropped = int(step), values["dropped"]
    return steps


def replayed(taken: list[set[int]]) -> Any:
    """Return a program that trains in one process, in each step on the examples of the tasks whose gradients it used.

    ``taken``: the steps that used each task's gradients, in rank order.
    """

    def program(ctx: FakeContext) -> Any:
        x, y = digits(12 * STEPS)
        model = sgd()
        for step in range(EPOCHS * STEPS):
            first = step % STEPS * 12
            rows = [first + 4 * rank + i for rank in range(3) if step in taken[rank] for i in range(4)]
            model.train_on_batch(x[rows], y[rows])
        return model.get_weights()

    return program


def test_late_gradients_are_dropped_and_counted_and_nobody_waits_for_them() -> None:
    workers = run_gang(5, one_is_slow, servers=2)[:3]
    (chief, result), (slow, _), _ = workers
    total = EPOCHS * STEPS
    taken = [accepted(ctx) for ctx, *_ in workers]
    assert all(sum(step in steps for steps in taken) == 2 for step in range(total))
    for ours, theirs in zip(result.weights, run_gang(1, replayed(taken))[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)
    assert result.optimizer[0] == total
    for rank, (task, counts) in enumerate(result.updates.items()):
        assert task == f"worker:{rank}"
        assert counts["applied"] == len(taken[rank])
        assert counts["applied"] + counts["dropped"] == counts["scheduled"]
    assert metric(slow, "dropped")[-1] == result.updates["worker:1"]["dropped"] >= 1
    (text,) = [text for _, title, text in chief.notes if title == "Updates"]
    assert f"{int(metric(slow, 'dropped')[-1])} of worker:1" in text
    assert [step for step, values in chief.points if "loss" in values][-1] == total
    assert chief.progressed[-1] == (total, total)


def the_chief_misses_an_epoch(ctx: FakeContext) -> Any:
    """Train with a chief that waits in its first step until the others are in the third epoch."""
    import keras

    class Late(keras.callbacks.Callback):
        run_on_all_tasks = True

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.epoch = epoch

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            there = ctx.run_dir / "in the third"
            if ctx.rank == 2 and self.epoch == 2:
                there.touch()
            elif (ctx.rank, self.epoch, batch) == (0, 0, 0):
                patience.until(there.exists, "the third epoch")

    x, y = digits(12 * STEPS)
    strategy = ParameterServer(sync=True, backup_workers=1)
    return fit(ctx, "late", sgd, x, y, batch_size=12, epochs=EPOCHS, callbacks=[Late()], strategy=strategy)


def test_an_epoch_that_the_chief_has_missed_has_a_loss_all_the_same() -> None:
    (chief, result), *_ = run_gang(4, the_chief_misses_an_epoch, servers=1)
    assert all(0 < loss < 10 for loss in result.history["loss"])
    assert [step for _, step, _ in chief.epochs] == [STEPS, 2 * STEPS, 3 * STEPS]
    assert chief.progressed[-1] == (EPOCHS * STEPS, EPOCHS * STEPS)


def refusals(ctx: FakeContext) -> Any:
    import keras

    from ..cases import dense

    x, y = digits(20)

    def refused(name: str, message: str, model: Any, strategy: Any, **arguments: Any) -> None:
        if ctx.job_name == "ps":
            return
        with pytest.raises(InvalidInput, match=message):
            fit(ctx, name, model, x, y, strategy=strategy, **arguments)

    backup = ParameterServer(sync=True, backup_workers=1)
    refused("all", "got 2 with 2 workers", sgd, ParameterServer(sync=True, backup_workers=2))
    refused("executions", "`steps_per_execution` must be 1", lambda: dense("sgd", steps_per_execution=2), backup)
    clipped = lambda: dense(keras.optimizers.SGD(global_clipnorm=1.0))  # noqa: E731
    refused("clip", "each ps task has only some of them, got 1.0 with 2", clipped, ParameterServer())
    scaled = lambda: dense(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()))  # noqa: E731
    refused("scaled", "must not scale its loss", scaled, ParameterServer())
    return True


def test_what_cannot_be_right_is_refused() -> None:
    assert all(run_gang(4, refusals, servers=2))


def test_the_client_refuses_what_a_cluster_cannot_do() -> None:
    backup = ParameterServer(sync=True, backup_workers=2)
    with pytest.raises(InvalidInput, match="must be less than the number of workers.* got 2 with 2 workers"):
        validate(Asked(backup, {"worker": 2, "ps": 1}))
    with pytest.raises(InvalidInput, match="must include ps"):
        training_jobs(ParameterServer(), {"worker": 2})
    assert training_jobs(backup, {"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}) == {
        "chief": 1,
        "worker": 2,
        "ps": 1,
    }
