"""The order in which a pipeline's devices do their work: stages, and the schedule "fill and drain".

TensorFlow's executor starts any operation that is ready. Without control dependencies, the first stage would therefore
process all its microbatches before the second stage gets one. A *stage* is the work of one device between two
transfers: the device's operations that have the same number of device changes on the path to them. In "fill and drain",
each stage runs the forward passes of all microbatches in order, and then the backward passes.
``one_forward_one_backward.py`` implements the other schedule.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

import tensorflow as tf

Stage = tuple[str, int]
"""A stage: its device, and the number of device changes on the path to it."""
Ended = dict[str, list[tf.Operation]]
"""Operations that run when a device has finished some work, keyed by device."""
_LARGE = re.compile("MatMul|Conv|Einsum|While")
_STATELESS_SOURCES = ("Const", "ReadVariableOp")


class Phase:
    """The operations of one microbatch's forward or backward pass, grouped by stage."""

    def __init__(self, operations: Sequence[tf.Operation]) -> None:
        self._stages: dict[Stage, list[tf.Operation]] = defaultdict(list)
        levels: dict[str, int] = {}
        for operation in operations:  # in the order of their creation, so inputs come first
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
        """Return a stage's operations in the order of their creation."""
        return self._stages[stage]

    def ended(self, stage: Stage) -> tf.Operation:
        """Return an operation on the stage's device that runs after all operations of the stage."""
        if stage not in self._ended:
            self._ended[stage] = when_ended(stage[0], self._stages[stage])
        return self._ended[stage]

    def one_at_a_time(self) -> None:
        """Make each stage run its large operations one after the other, in the order of their creation.

        Operations that another stage waits for come first: in the backward pass, these are the derivatives with respect
        to the stage's inputs. The derivatives with respect to its weights are computed while the next stage works.
        """
        for stage, operations in self._stages.items():
            awaited = self.awaited(stage)
            large = [operation for operation in operations if _LARGE.search(operation.type)]
            large.sort(key=lambda operation: operation.name not in awaited)
            for earlier, later in pairwise(large):
                later._add_control_inputs([earlier])

    def awaited(self, stage: Stage) -> set[str]:
        """Return the names of the stage's operations that lead to another stage."""
        others = {operation.name for other, made in self._stages.items() if other != stage for operation in made}
        found: set[str] = set()
        for operation in reversed(self._stages[stage]):
            users = {user.name for output in operation.outputs for user in output.consumers()}
            if users & others or users & found:
                found.add(operation.name)
        return found

    def wait_for(self, stage: Stage, operations: Sequence[tf.Operation]) -> None:
        """Make the stage wait for these operations."""
        begin_after(self._stages[stage], operations)

    def ended_on(self) -> Ended:
        """Return the operations that run when all stages of a device have ended, keyed by device."""
        done: Ended = defaultdict(list)
        for stage in self.stages:
            done[stage[0]].append(self.ended(stage))
        return done

    def begin_after(self, ended: Ended) -> None:
        """Make each device's stages wait for its operations in ``ended``."""
        for stage in self.stages:
            if done := ended.get(stage[0]):
                self.wait_for(stage, done)


def when_ended(device: str, operations: Sequence[tf.Operation], others: Sequence[tf.Operation] = ()) -> tf.Operation:
    """Return an operation on the device that runs after all of ``operations`` and ``others``."""
    names = {operation.name for operation in operations}
    last = [
        operation
        for operation in operations
        if not any(user.name in names for output in operation.outputs for user in output.consumers())
    ]
    with tf.compat.v1.device(device), tf.control_dependencies([*last, *others]):
        return tf.no_op(name="ended")


def begin_after(operations: Sequence[tf.Operation], others: Sequence[tf.Operation]) -> None:
    """Make those of ``operations`` that have inputs from outside the group wait for ``others``."""
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
    """Return the operations in ``operations`` that do not lead to any operation in ``by``.

    The derivative of a loop adds inputs to the loop, so the operations that compute these inputs run before the loop.
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
    """Make each stage process the microbatches one after the other.

    ``phases``: the phases of all microbatches, either all forward or all backward.
    """
    for earlier, later in pairwise(phases):
        for stage in later.stages:
            later.wait_for(stage, [earlier.ended(stage)])


def fill_and_drain(forward: Sequence[Phase], backward: Sequence[Phase]) -> Ended:
    """Make each device start its backward passes after the forward passes of all microbatches.

    Returns the operations that run when a device has finished, keyed by device.
    """
    in_order(forward)
    in_order(backward)
    backward[0].begin_after(forward[-1].ended_on())
    return backward[-1].ended_on()
