"""The order in which a pipeline's devices work: fill and drain.

TensorFlow's executor starts whatever is ready, so that without a word the first stage would do all its microbatches
before the second gets one. Here each stage does its microbatches in order, forward and then backward. A *stage* is what
one device does between two transfers: its operations with the same number of changes of device on the way to them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

import tensorflow as tf

Stage = tuple[str, int]
"""A device, and how many changes of device lie before it."""
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

    def ended(self, stage: Stage) -> tf.Operation:
        """An operation on the stage's device that runs when all of the stage's have."""
        if stage not in self._ended:
            mine = self._stages[stage]
            names = {operation.name for operation in mine}
            last = [
                operation
                for operation in mine
                if not any(user.name in names for output in operation.outputs for user in output.consumers())
            ]
            with tf.compat.v1.device(stage[0]), tf.control_dependencies(last):
                self._ended[stage] = tf.no_op(name="ended")
        return self._ended[stage]

    def one_at_a_time(self) -> None:
        """Have each stage do its large operations one after the other, in the order of their making.

        What another stage waits for comes first: on the way back, the derivatives of what the stage was given, and
        then, while the next stage works with them, those of its weights.
        """
        for stage, operations in self._stages.items():
            awaited = self._awaited(stage)
            large = [operation for operation in operations if _LARGE.search(operation.type)]
            large.sort(key=lambda operation: operation.name not in awaited)
            for earlier, later in pairwise(large):
                later._add_control_inputs([earlier])

    def _awaited(self, stage: Stage) -> set[str]:
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
        mine = self._stages[stage]
        names = {operation.name for operation in mine}
        for operation in mine:
            outside = [
                tensor.op
                for tensor in operation.inputs
                if tensor.op.name not in names and tensor.op.type not in _STATELESS_SOURCES
            ]
            if outside:
                operation._add_control_inputs(operations)


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


def in_order(microbatches: Sequence[Sequence[tf.Operation]]) -> list[Phase]:
    """Have each stage do one microbatch after the other. Takes the operations of each, forward or backward."""
    phases = [Phase(operations) for operations in microbatches]
    for earlier, later in pairwise(phases):
        for stage in later.stages:
            later.wait_for(stage, [earlier.ended(stage)])
    return phases


def then(before: Phase, after: Phase) -> None:
    """Have each device begin with ``after`` when it has done all of ``before``."""
    done: dict[str, list[tf.Operation]] = defaultdict(list)
    for stage in before.stages:
        done[stage[0]].append(before.ended(stage))
    for stage in after.stages:
        after.wait_for(stage, done[stage[0]])
