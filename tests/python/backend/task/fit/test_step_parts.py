"""Tests of the parts of real tasks' steps: one task reads its data slowly, and another one waits for it."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import Any

from jupyter_dtf.schema.metrics import (
    STEP_CHECKPOINT,
    STEP_COMPUTE,
    STEP_EXCHANGE,
    STEP_INPUT,
    STEP_PARTS,
    STEP_WAIT,
)
from jupyter_dtf.schema.strategy import AllReduce, ParameterServer, Strategy

from ..gang import FakeContext, run_gang
from .cases import dense, digits
from .comparison import fit

STEPS = 8
SLOW_S = 0.2


def told(strategy: Strategy, slow: int | None, servers: int = 0) -> list[dict[str, list[float]]]:
    """Return what each training task has reported, by metric. The task of rank ``slow`` sleeps for each of its batches.

    Tests use the medians: on a machine with more processes than cores, one interval may include seconds in which the
    task had no core.
    """

    def program(ctx: FakeContext) -> Any:
        import time

        import tensorflow as tf

        x, y = digits(6)

        def read(number: Any) -> Any:
            time.sleep(SLOW_S)
            return number

        def data_fn(ctx: Any) -> Any:
            data = tf.data.Dataset.range(STEPS)
            if ctx.rank == slow:
                data = data.map(lambda number: tf.ensure_shape(tf.numpy_function(read, [number], tf.int64), []))
            return data.map(lambda _: (tf.constant(x), tf.constant(y)))

        fit(ctx, "parts", lambda: dense("sgd"), data_fn, epochs=2, strategy=strategy, check=False)
        found = defaultdict(list)
        for figures in ctx.figures:
            for name in figures.keys() & STEP_PARTS.keys():
                found[name].append(figures[name])
        return dict(found)

    return run_gang(2 + servers, program, servers=servers)[:2]


def test_one_task_waits_for_its_batches_and_the_other_one_for_it() -> None:
    slow, other = told(AllReduce(), slow=0)
    assert slow.keys() == other.keys() == STEP_PARTS.keys()
    assert median(slow[STEP_INPUT]) > median(slow[STEP_COMPUTE]) + median(slow[STEP_WAIT])
    assert median(other[STEP_WAIT]) > median(other[STEP_COMPUTE]) + median(other[STEP_INPUT])
    assert median(slow[STEP_INPUT]) > median(other[STEP_INPUT])
    assert median(other[STEP_EXCHANGE]) >= median(other[STEP_WAIT]) > median(slow[STEP_WAIT])
    # A batch takes at least SLOW_S, and one is read ahead during the previous step.
    assert max(slow[STEP_INPUT]) > SLOW_S / 2


def test_with_parameter_servers_who_waits_is_not_told_from_a_slow_server() -> None:
    slow, other = told(ParameterServer(sync=True), slow=1, servers=1)[::-1]
    assert slow.keys() == other.keys() == STEP_PARTS.keys() - {STEP_WAIT}
    assert median(slow[STEP_INPUT]) > median(slow[STEP_COMPUTE]) + median(slow[STEP_EXCHANGE])
    assert median(other[STEP_EXCHANGE]) > median(other[STEP_COMPUTE]) + median(other[STEP_INPUT])
    assert all(seconds >= 0 for figures in (slow, other) for seconds in figures[STEP_CHECKPOINT])
