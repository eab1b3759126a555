"""Trains placed models in a gang, prepared as by a client."""

from __future__ import annotations

import dataclasses
import pickle
import random
from collections.abc import Callable
from typing import Any

from ...gang import FakeContext
from ..comparison import _pickled


def device(task: int) -> str:
    return f"/job:worker/task:{task}/device:CPU:0"


def halves(model: Any, tasks: int = 2) -> dict[str, str]:
    """Return a placement of a model's layers on a number of tasks, in the order in which the layers are called."""
    from jupyter_dtf.backend.task.describe.layer_graph import layers_by_id

    layers = list(layers_by_id(model))
    return {layer: device(number * tasks // len(layers)) for number, layer in enumerate(layers)}


def fit(
    ctx: FakeContext,
    model: Any,
    x: Any,
    y: Any = None,
    *,
    placement: Any = None,
    microbatches: int = 4,
    replicas: int = 1,
    schedule: str = "1f1b",
    **arguments: Any,
) -> Any:
    """Do what the client and then this task does. Return the prepared fit, and the task's context, or None if the task
    only provides its devices.
    """
    import jupyter_dtf.client.fit as client
    from jupyter_dtf.schema.strategy import Pipeline

    random.seed(5)
    strategy = Pipeline(placement or halves(model), microbatches=microbatches, replicas=replicas, schedule=schedule)
    job = client.prepare(model, x, y, strategy=strategy, **arguments)
    return _carried_out(ctx, job, _pickled(job.program))


def fit_by_one_client(
    ctx: FakeContext, make: Callable[[], Any], x: Any, y: Any = None, *, microbatches: int = 4, **arguments: Any
) -> Any:
    """Do the same with the model that ``make`` returns on the first task, which prepares the job for all tasks."""
    import jupyter_dtf.client.fit as client
    from jupyter_dtf.schema.strategy import Pipeline

    job: Any = None

    def prepared() -> bytes:
        nonlocal job
        random.seed(5)
        model = make()
        strategy = Pipeline(halves(model), microbatches=microbatches, schedule="1f1b")
        job = client.prepare(model, x, y, strategy=strategy, **arguments)
        return _pickled(job.program)

    sent = ctx.by_one_client(prepared)
    return _carried_out(ctx, job, sent)


def _carried_out(ctx: FakeContext, job: Any, sent: bytes) -> Any:
    here = dataclasses.replace(ctx, points=[], notes=[], epochs=[], progressed=[])
    program, positional, _ = pickle.loads(sent)
    result = program(*positional, here)
    if result is None:
        return job, None
    job.finish(pickle.loads(_pickled(result)))
    return job, here
