"""Programs that the tests in this folder run in tasks."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...gang import FakeContext
from ..cases import dense


def fit(ctx: FakeContext, name: str, model: Any, x: Any, y: Any = None, **arguments: Any) -> tuple[FakeContext, Any]:
    """Do what the client and then this task does, in a separate directory. Return the task's context and its result,
    which is None except on the chief.
    """
    import random

    from jupyter_dtf.client.fit import prepare

    random.seed(5)  # one client draws the job's seed for all tasks
    here = dataclasses.replace(ctx, shared_dir=ctx.shared_dir / name, points=[], notes=[], epochs=[], progressed=[])
    here.shared_dir.mkdir(exist_ok=True)
    job = prepare(model, x, y, **arguments)
    function, positional, _ = job.program
    return here, function(*positional, here)


def sgd() -> Any:
    import keras

    keras.utils.set_random_seed(3)
    return dense(keras.optimizers.SGD(0.1))


def metric(ctx: FakeContext, name: str) -> list[float]:
    """Return the values of a metric that a task has reported."""
    return [values[name] for _, values in ctx.points if name in values]
