"""The order that is written into a graph: which operations of a stage wait for which."""

from __future__ import annotations

import tensorflow as tf

from jupyter_dtf.backend.task.fit.pipeline.step_order import Phase

SIDE = 2


def way_back(second_task: int) -> list[tf.Operation]:
    """Derivatives of two layers on task 1, and then something on another task; those of weights are made first."""
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
    """The names of the operations in the order in which they wait for each other."""
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
