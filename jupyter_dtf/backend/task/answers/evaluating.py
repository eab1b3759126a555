"""One task's part of an ``evaluate`` call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

# Keras 3.15: Trainer converts logs with this; no public function does.
from keras.src.utils.python_utils import pythonify_logs

from ..collectives import make_reducer
from ..collectives.primitive import Reducer
from ..fit.steps import Metrics
from .batches import TaskBatches, batches_of
from .job import AnswerJob, Evaluated
from .models import Watched, answering_model
from .pace import Pace

_KERAS_METRICS = "keras.src."


def answer(job: AnswerJob, ctx: Any) -> Evaluated | None:
    """Run one task's part; the chief returns the combined result. Raises InvalidInput, or whatever user code raises."""
    reducer = make_reducer("auto", ctx)
    failed = True
    try:
        found = _evaluated(job, ctx, reducer)
        failed = False
        return found
    finally:
        reducer.close(failed)


def _evaluated(job: AnswerJob, ctx: Any, reducer: Reducer) -> Evaluated | None:
    batches = batches_of(job, ctx, reducer.rank, reducer.size)
    model = answering_model(job, batches.dataset.element_spec, reducer)
    if batches.count is None and model.steps_per_execution == 1 and not model.run_eagerly:
        # A step that fails at the end of the data has already run the operations that do not depend on a batch, so the
        # mean losses of a model with several outputs would count that step. A function of several steps checks for
        # data first.
        model.steps_per_execution = 2
    model.make_test_function()
    watched = Watched(model, but=model.metrics_variables)
    why = _why_not_in_parts(model, batches, watched) if reducer.size > 1 else ""
    reasons = [reason for reason in reducer.all_gather(why) if reason]
    model.reset_metrics()
    if not reasons:
        logs = _run(model, batches, ctx)
        metrics = Metrics(model, reducer, at_epoch_end=lambda: None)
        metrics.validating = True
        logs = pythonify_logs(metrics(logs))
    elif reducer.rank:
        return None
    else:
        ctx.note("info", "Only one task evaluates", f"{reasons[0]}: the first task evaluates all of the data")
        logs = _run(model, batches_of(job, ctx, 0, 1), ctx)
        logs = pythonify_logs(model._get_metrics_result_or_logs(logs))
    if reducer.rank:
        return None
    ctx.report(**{name: value for name, value in logs.items() if isinstance(value, float)})
    return Evaluated(logs, model._flatten_metrics_in_order(logs), job.return_dict, watched.changed())


def _run(model: Any, batches: TaskBatches, ctx: Any) -> Any:
    """Update the metrics with all batches. Returns the result of the last step."""
    logs: Any = {}
    pace = Pace(ctx, batches.count or 0)
    for said in _steps(model, batches.dataset, batches.count):
        logs = said
        if not pace.add(model.steps_per_execution):
            break
    pace.end()
    return logs


def _steps(model: Any, dataset: tf.data.Dataset, count: int | None) -> Iterator[Any]:
    """Process ``count`` batches, or all batches if ``count`` is None. Yields the result of each call to Keras's step
    function.
    """
    source = iter(dataset)
    calls = None if count is None else -(-count // model.steps_per_execution)
    while calls is None or calls > 0:
        try:
            yield model.test_function(source)
        except (StopIteration, tf.errors.OutOfRangeError):
            return
        calls = None if calls is None else calls - 1


def _why_not_in_parts(model: Any, batches: TaskBatches, watched: Watched) -> str:
    """Return why the metric states for parts of the data do not add up to the states for all of the data, or an empty
    string if they do.

    The variables in ``watched`` are unchanged afterwards.
    """
    model.reset_metrics()
    variables = model.metrics_variables
    if any(variable.aggregation != "sum" or np.any(variable.numpy()) for variable in variables):
        return "A metric has states that do not begin at 0, or are not summed"
    steps = model.steps_per_execution
    calls = _steps(model, batches.dataset, batches.count)
    logs = next(calls, None)
    if logs is None:
        return ""
    changed, said = bool(watched.changed()), set(logs) == set(model.get_metrics_result())
    watched.put_back()
    if changed:
        return "The model's state changes when it is evaluated (a stateful layer, or random numbers)"
    if not said:
        return "The model's test_step returns values other than those of its metrics"
    if all(type(metric).__module__.startswith(_KERAS_METRICS) for metric in _leaves(model)):
        return ""
    first = [variable.numpy() for variable in variables]
    if next(calls, None) is None:
        return ""
    both = [variable.numpy() for variable in variables]
    model.reset_metrics()
    count = None if batches.count is None else min(batches.count - steps, steps)
    next(_steps(model, batches.dataset.skip(steps).take(steps), count))
    second = [variable.numpy() for variable in variables]
    watched.put_back()
    if all(np.allclose(c, a + b, rtol=1e-4, equal_nan=True) for a, b, c in zip(first, second, both, strict=True)):
        return ""
    return "The states of a metric after two batches are not the sums of its states after each batch"


def _leaves(model: Any) -> list[Any]:
    """Return the metrics, with those passed to ``compile`` listed individually."""
    found: list[Any] = []
    for metric in model.metrics:
        inner = getattr(metric, "metrics", None)
        found += inner if isinstance(metric, keras.src.trainers.compile_utils.CompileMetrics) and inner else [metric]
    return found
