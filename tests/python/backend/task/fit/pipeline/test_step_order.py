"""Tests of the order of operations in a pipeline's graph: which operations of a stage wait for which."""

from __future__ import annotations

from graphlib import TopologicalSorter
from itertools import pairwise

import tensorflow as tf

from jupyter_dtf.backend.task.fit.pipeline.one_forward_one_backward import take_turns
from jupyter_dtf.backend.task.fit.pipeline.step_order import Phase

SIDE = 2


def way_back(second_task: int) -> list[tf.Operation]:
    """Create the derivatives of two layers on task 1, of weights first, and then an operation on ``second_task``."""
    v1 = tf.compat.v1
    with v1.device("/job:worker/task:1/device:CPU:0"):
        slope, weights = (v1.placeholder(tf.float32, [SIDE, SIDE]) for _ in range(2))
        before = len(v1.get_default_graph().get_operations())
        for layer in (1, 0):
            tf.matmul(weights, slope, name=f"of_weights_{layer}")
            slope = tf.matmul(slope, weights, name=f"of_inputs_{layer}")
    with v1.device(f"/job:worker/task:{second_task}/device:CPU:0"):
        tf.identity(slope)
    return list(v1.get_default_graph().get_operations()[before:])


def in_turn(operations: list[tf.Operation]) -> list[str]:
    """Return the names of the operations in the order in which they wait for each other."""
    names = {operation.name for operation in operations}
    after = {before.name: later.name for later in operations for before in later.control_inputs if before.name in names}
    found = [name for name in after if name not in after.values()]
    while found[-1] in after:
        found.append(after[found[-1]])
    return found


def test_what_another_stage_waits_for_comes_first() -> None:
    with tf.Graph().as_default():
        operations = way_back(second_task=0)
        Phase(operations).one_at_a_time()
        assert in_turn(operations) == ["of_inputs_1", "of_inputs_0", "of_weights_1", "of_weights_0"]


def test_where_none_waits_they_stay_in_the_order_of_their_making() -> None:
    with tf.Graph().as_default():
        operations = way_back(second_task=1)
        Phase(operations).one_at_a_time()
        assert in_turn(operations) == ["of_weights_1", "of_inputs_1", "of_weights_0", "of_inputs_0"]


def passes(microbatches: int, carried: bool = False) -> tuple[list[Phase], list[Phase]]:
    """Return the forward and backward passes of three stages with weights; ``first`` and ``third`` are on task 0.

    ``carried``: whether the output of the third stage is an input of the first stage of the next microbatch.
    """
    v1 = tf.compat.v1
    graph = v1.get_default_graph()
    with v1.device("/job:worker/task:0/device:CPU:0"):
        weights, left = (v1.placeholder(tf.float32, [SIDE, SIDE]) for _ in range(2))
    forward, backward, ends = [], [], []
    for number in range(microbatches):
        begun = len(graph.get_operations())
        x = left
        for stage, task in (("first", 0), ("second", 1), ("third", 0)):
            with v1.device(f"/job:worker/task:{task}/device:CPU:0"):
                x = tf.matmul(x, weights, name=f"{stage}_{number}")
        left = x if carried else left
        ends.append(x)
        forward.append(Phase(graph.get_operations()[begun:]))
    for number, x in enumerate(ends):
        begun = len(graph.get_operations())
        for stage, task in (("third", 0), ("second", 1), ("first", 0)):
            with v1.device(f"/job:worker/task:{task}/device:CPU:0"):
                tf.matmul(weights, x, name=f"{stage}_weights_{number}")
                x = tf.matmul(x, weights, name=f"{stage}_back_{number}") if stage != "first" else x
        backward.append(Phase(graph.get_operations()[begun:]))
    return forward, backward


def on_task(task: int) -> list[str]:
    """Return a task's matrix products in the order that the graph prescribes, and check that it is the only one."""
    v1 = tf.compat.v1
    before: dict[str, set[str]] = {}
    for operation in v1.get_default_graph().get_operations():
        sources = [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
        before[operation.name] = {source.name for source in sources}
    order = list(TopologicalSorter(before).static_order())
    reached: dict[str, set[str]] = {}
    for name in order:
        reached[name] = before[name].union(*(reached[source] for source in before[name]))
    mine = [
        name
        for name in order
        if (operation := v1.get_default_graph().get_operation_by_name(name)).type == "MatMul"
        and f"task:{task}" in operation.device
    ]
    assert all(earlier in reached[later] for earlier, later in pairwise(mine)), "two could run at the same time"
    return mine


def test_each_device_has_one_order_of_forward_and_backward_passes() -> None:
    with tf.Graph().as_default():
        assert take_turns(*passes(8)) is not None
        second = on_task(1)
        on_task(0)
    ahead = second.index("second_back_0")
    assert second[:ahead] == [f"second_{number}" for number in range(3)]
    steady = second[ahead : second.index("second_7")]
    assert [name for name in steady if name.startswith("second_back")] == [f"second_back_{n}" for n in range(5)]
    assert second.index("second_weights_0") > second.index("second_back_1"), "nobody waits for derivatives of weights"


def test_what_a_microbatch_leaves_for_an_earlier_stage_of_the_next_one_is_waited_for() -> None:
    """Otherwise, the graph would have a cycle, and no step could run."""
    with tf.Graph().as_default():
        assert take_turns(*passes(4, carried=True)) is not None
        first = on_task(0)
    for number in range(3):
        assert first.index(f"third_{number}") < first.index(f"first_{number + 1}")
