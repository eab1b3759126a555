"""Fits of placed models in a gang, as a client would prepare them."""

from __future__ import annotations

import dataclasses
import pickle
import random
from typing import Any

from ...gang import FakeContext
from ..comparison import _pickled


def device(task: int) -> str:
    return f"/job:worker/task:{task}/device:CPU:0"


def halves(model: Any, tasks: int = 2) -> dict[str, str]:
    """A placement of a model's layers on so many tasks, in the order in which they are called."""
    from jupyter_dtf.backend.task.describe import layers_by_id

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
    **arguments: Any,
) -> Any:
    """What the client and then this task do. Returns the prepared fit, and the context or None where it only serves."""
    import jupyter_dtf.notebook.fit as client
    from jupyter_dtf.schema.strategy import Pipeline

    random.seed(5)
    here = dataclasses.replace(ctx, points=[], notes=[], epochs=[], progressed=[])
    strategy = Pipeline(placement or halves(model), microbatches=microbatches, replicas=replicas)
    job = client.prepare(model, x, y, strategy=strategy, **arguments)
    program, positional, _ = pickle.loads(_pickled(job.program))
    result = program(*positional, here)
    if result is None:
        return job, None
    job.finish(pickle.loads(_pickled(result)))
    return job, here
