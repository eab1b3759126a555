"""Tests of replicas in lockstep: each runs in turn until the point where all of them meet, and no thread is left."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

from jupyter_dtf.backend.task.fit.in_graph.lockstep import Lockstep
from jupyter_dtf.errors import InvalidInput


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("dtf-replica")]


def test_replicas_take_turns_and_go_on_with_what_has_become_of_all() -> None:
    together, order = Lockstep(), []

    def replica(index: int) -> str:
        order.append(("begins", index))
        total = together.meet(index + 1, sum)
        order.append(("goes on", index))
        largest = together.meet(total * (index + 1), max)
        assert together.current == index
        return f"{index}: {total} {largest}"

    assert together.run(3, replica) == ["0: 6 18", "1: 6 18", "2: 6 18"]
    assert order == [(what, index) for what in ("begins", "goes on") for index in range(3)]
    assert together.current is None


def test_operations_stand_on_the_callers_graph_and_each_replicas_device() -> None:
    together = Lockstep()

    def replica(index: int) -> Any:
        with tf.device(f"/device:CPU:{index}"):
            mine = tf.ones([]) * (index + 1)
            return together.meet(mine, tf.add_n) * mine

    @tf.function
    def step() -> Any:
        return tf.stack(together.run(2, replica))

    graph = step.get_concrete_function().graph
    assert [op.device for op in graph.get_operations() if op.type == "Mul"] == ["/device:CPU:0", "/device:CPU:1"] * 2
    assert [op.device for op in graph.get_operations() if op.type == "AddN"] == [""]


def test_the_first_to_fail_is_heard_and_the_others_are_let_go() -> None:
    together, unwound = Lockstep(), []

    def replica(index: int) -> None:
        try:
            together.meet(index, sum)
            if index == 1:
                raise KeyError("on purpose")
            together.meet(index, sum)
        finally:
            unwound.append(index)

    with pytest.raises(KeyError, match="on purpose"):
        together.run(3, replica)
    assert sorted(unwound) == [0, 1, 2]


def test_a_merge_that_fails_lets_all_go() -> None:
    together = Lockstep()
    with pytest.raises(TypeError):
        together.run(2, lambda index: together.meet(None, sum))


def test_replicas_that_take_different_ways_are_an_error() -> None:
    together = Lockstep()
    with pytest.raises(InvalidInput, match="the same calls on every replica"):
        together.run(2, lambda index: together.meet(index, sum) if index else None)


def test_meeting_inside_a_function_of_the_step_is_refused() -> None:
    together = Lockstep()

    @tf.function(autograph=False)
    def inner() -> Any:
        return together.meet(tf.ones([]), tf.add_n)

    @tf.function(autograph=False)
    def step() -> Any:
        return together.run(2, lambda index: inner())

    with pytest.raises(InvalidInput, match="top level"):
        step()
