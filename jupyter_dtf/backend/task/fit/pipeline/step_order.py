"""What a pipeline's devices do in which order: stages, and fill and drain.

TensorFlow's executor starts whatever is ready, so that without a word the first stage would do all its microbatches
before the second gets one. A *stage* is what one device does between two transfers: its operations with the same number
of changes of device on the way to them. To fill and drain, each stage does its microbatches in order, forward and then
backward; ``one_forward_one_backward.py`` has the other order.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

import tensorflow as tf

Stage = tuple[str, int]
"""A device, and how many changes of device lie before it."""
Ended = dict[str, list[tf.Operation]]
"""By device, operations that run when it has done something."""
_LARGE = re.compile("MatMul|Conv|Einsum|While")
_STATELESS_SOURCES = ("Const", "ReadVariableOp")


class Phase:
    """What one microbatch does forward, or backward: its operations by stage."""

    def __init__(self, operations: Sequence[tf.Operation]) -> None:
        self._stages: dict[Stage, list[tf.Operation]] = defaultdict(list)
        levels: dict[str, int] = {}
        for operation in operations:  # in the order of their making, so inputs come first
            before = [
                levels[tensor.op.name] + (bool(tensor.op.device) and tensor.op.device != operation.device)
                for tensor in operation.inputs
                if tensor.op.name in levels
            ]
            level = levels[operation.name] = max(before, default=0)
            if operation.device:
                self._stages[operation.device, level].append(operation)
        self._ended: dict[Stage, tf.Operation] = {}

    @property
    def stages(self) -> list[Stage]:
        return list(self._stages)

    def operations(self, stage: Stage) -> list[tf.Operation]:
        """In the order of their making."""
        return self._stages[stage]

    def ended(self, stage: Stage) -> tf.Operation:
        """An operation on the stage's device that runs when all of the stage's have."""
        if stage not in self._ended:
            self._ended[stage] = when_ended(stage[0], self._stages[stage])
        return self._ended[stage]

    def one_at_a_time(self) -> None:
        """Have each stage do its large operations one after the other, in the order of their making.

        What another stage waits for comes first: on the way back, the derivatives of what the stage was given, and
        then, while the next stage works with them, those of its weights.
        """
        for stage, operations in self._stages.items():
            awaited = self.awaited(stage)
            large = [operation for operation in operations if _LARGE.search(operation.type)]
            large.sort(key=lambda operation: operation.name not in awaited)
            for earlier, later in pairwise(large):
                later._add_control_inputs([earlier])

    def awaited(self, stage: Stage) -> set[str]:
        """The names of the stage's operations that lead to another stage."""
        others = {operation.name for other, made in self._stages.items() if other != stage for operation in made}
        found: set[str] = set()
        for operation in reversed(self._stages[stage]):
            users = {user.name for output in operation.outputs for user in output.consumers()}
            if users & others or users & found:
                found.add(operation.name)
        return found

    def wait_for(self, stage: Stage, operations: Sequence[tf.Operation]) -> None:
        """Have the stage begin after the operations."""
        begin_after(self._stages[stage], operations)

    def ended_on(self) -> Ended:
        """For each device what runs when all its stages have ended."""
        done: Ended = defaultdict(list)
        for stage in self.stages:
            done[stage[0]].append(self.ended(stage))
        return done

    def begin_after(self, ended: Ended) -> None:
        """Have each device begin when what it has to do before has ended."""
        for stage in self.stages:
            if done := ended.get(stage[0]):
                self.wait_for(stage, done)


def when_ended(device: str, operations: Sequence[tf.Operation], others: Sequence[tf.Operation] = ()) -> tf.Operation:
    """An operation on the device that runs when all of ``operations`` have, and ``others``."""
    names = {operation.name for operation in operations}
    last = [
        operation
        for operation in operations
        if not any(user.name in names for output in operation.outputs for user in output.consumers())
    ]
    with tf.compat.v1.device(device), tf.control_dependencies([*last, *others]):
        return tf.no_op(name="ended")


def begin_after(operations: Sequence[tf.Operation], others: Sequence[tf.Operation]) -> None:
    """Have what needs something from outside of ``operations`` wait for ``others``."""
    names = {operation.name for operation in operations}
    for operation in operations:
        outside = [
            tensor.op
            for tensor in operation.inputs
            if tensor.op.name not in names and tensor.op.type not in _STATELESS_SOURCES
        ]
        if outside:
            operation._add_control_inputs(others)


def not_taken(operations: Sequence[tf.Operation], by: Iterable[tf.Operation]) -> list[tf.Operation]:
    """Those of ``operations`` that do not lead to one of ``by``.

    A derivative of a loop gives the loop more inputs than it had: what makes these comes before it.
    """
    takers = {operation.name for operation in by}
    left = []
    for operation in reversed(operations):
        if any(user.name in takers for output in operation.outputs for user in output.consumers()):
            takers.add(operation.name)
        else:
            left.append(operation)
    return left[::-1]


def in_order(phases: Sequence[Phase]) -> None:
    """Have each stage do one microbatch after the other. Takes their phases, all forward or all backward."""
    for earlier, later in pairwise(phases):
        for stage in later.stages:
            later.wait_for(stage, [earlier.ended(stage)])


def fill_and_drain(forward: Sequence[Phase], backward: Sequence[Phase]) -> Ended:
    """Have each device begin with the way back when all its microbatches have gone forward.

    Returns what runs on each device when it has done all.
    """
    in_order(forward)
    in_order(backward)
    backward[0].begin_after(forward[-1].ended_on())
    return backward[-1].ended_on()
