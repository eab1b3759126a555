"""The runs of all rounds: a small training run, or a program. Each waits at the step at which its round holds it."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import cloudpickle
import keras
import numpy as np

import jupyter_dtf as dtf

from .schedule import STEPS

cloudpickle.register_pickle_by_value(sys.modules[__name__])

HELD = "held"
PACE_S = 0.008
SAVED_EVERY = 10
"""The number of steps between two checkpoints of the program."""
EPOCHS = 2
BATCH = 8
CHECKPOINT = dtf.Checkpoint(every_steps=10)
FIRST, SECOND = "/job:worker/task:0/device:CPU:0", "/job:worker/task:1/device:CPU:0"

STRATEGIES: dict[str, Any] = {
    "allreduce": dtf.AllReduce(),
    "mirrored": dtf.InGraph(),
    "ps, sync": dtf.ParameterServer(sync=True),
    "ps, async": dtf.ParameterServer(),
    "ps, backup": dtf.ParameterServer(sync=True, backup_workers=1),
    "pipeline": dtf.Pipeline({"hidden": FIRST, "out": SECOND}, microbatches=2),
}


def step_of(done: int, at: int, go: str, ctx: Any) -> None:
    """Spend some time at the end of a step. In the first attempt, step ``at`` does not end before the file ``go``
    exists, the run is asked to stop, or the task has to continue without another one.
    """
    if ctx.attempt == 1 and done == at:
        ctx.note("info", HELD, f"at step {done}")
        while not (os.path.exists(go) or ctx.going_over.is_called or ctx.stop_requested.wait(PACE_S)):
            pass
    threading.Event().wait(PACE_S)


class Gate(keras.callbacks.Callback):
    """A callback that counts this task's steps, and holds the task at step ``at``."""

    run_on_all_tasks = True

    def __init__(self, at: int, go: str) -> None:
        super().__init__()
        self.at, self.go, self.done = at, go, 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        from jupyter_dtf.backend.task.context import current

        self.done += 1
        step_of(self.done, self.at, self.go, current())


def model() -> Any:
    """Return a 16-8-4 network with dropout, compiled with Adam. Its initial weights are always the same."""
    keras.utils.set_random_seed(3)
    layers = [keras.Input((16,)), keras.layers.Dense(8, activation="tanh", name="hidden"), keras.layers.Dropout(0.2)]
    made = keras.Sequential([*layers, keras.layers.Dense(4, name="out")])
    made.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return made


def data() -> tuple[Any, Any]:
    """Return the examples of an epoch and their classes."""
    chance = np.random.default_rng(7)
    count = STEPS // EPOCHS * BATCH
    return chance.normal(size=(count, 16)).astype("float32"), chance.integers(0, 4, count)


def counts(args: tuple[int, int, str], ctx: Any) -> Any:
    """A program that continues from its checkpoint: a walk whose end depends on every step."""
    steps, at, go = args
    found = ctx.restore()
    walk, first = (found.tree["walk"], found.step + 1) if found else (np.zeros(4), 1)
    for step in range(first, steps + 1):
        walk = 0.9 * walk + np.arange(4) * step
        ctx.report(step, loss=float(walk.sum()))
        if step % SAVED_EVERY == 0:
            ctx.checkpoint(step, {"walk": walk})
        step_of(step, at, go, ctx)
        if ctx.should_stop:
            break
    return walk


def start(cluster: dtf.Cluster, strategy: str, at: int, go: Path) -> Any:
    """Start the run of a round, and return it without waiting for its end. If ``at`` is 0, the run is never held."""
    if strategy == "program":
        return start_program(cluster, at, str(go))
    checkpoint = None if "async" in strategy or "backup" in strategy else CHECKPOINT
    jobs = {"worker": 2, "ps": 1} if strategy.startswith("ps") else {"worker": 2}
    return cluster.fit(
        model(),
        *data(),
        strategy=STRATEGIES[strategy],
        jobs=jobs,
        batch_size=BATCH,
        epochs=EPOCHS,
        callbacks=[Gate(at, str(go))],
        checkpoint=checkpoint,
        check=False,
        threads_per_task=1,
        verbose=0,
        name=strategy,
        wait=False,
    )


def start_program(cluster: dtf.Cluster, at: int, go: str) -> dtf.Run:
    return cluster.run(
        counts,
        (STEPS, at, go),
        jobs={"worker": 2},
        restart=dtf.Restart(),
        threads_per_task=1,
        name="program",
        wait=False,
    )


def client(cluster: str, at: str, go: str) -> None:
    """Start a run and wait for its end: the main function of a separate process."""
    run = start_program(dtf.connect(cluster), int(at), go)
    print(run.id, flush=True)
    run.wait()
    sys.stdin.read()  # until nobody needs this process any more


if __name__ == "__main__":
    client(*sys.argv[1:])
