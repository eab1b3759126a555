"""Implements the schedule "one forward, one backward" (1F1B) as control dependencies in the graph of a step.

Every device does all its work in a fixed order. The work consists of the forward passes of its stages, the derivatives
that other stages wait for, and the derivatives with respect to weights; ``schema/one_f_one_b.py`` determines their
turns. The devices' orders are taken from one common order, which respects all dependencies in the graph, including
those between microbatches, such as moving averages or sums of derivatives. So no two devices wait for each other.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import tensorflow as tf

from .....schema.one_f_one_b import Turns
from .step_order import Ended, Phase, begin_after, when_ended

_Turn = tuple[int, int, int]


@dataclass
class _Work:
    """A piece of a device's work that is done without interruption."""

    turn: _Turn
    device: str
    operations: list[tf.Operation]
    needs: set[int] = field(default_factory=set)
    """The indices of the pieces of work that must be done before this one."""


def take_turns(forward: Sequence[Phase], backward: Sequence[Phase]) -> Ended | None:
    """Make every device process its part of all microbatches in the order of their turns.

    Returns, keyed by device, a list with an operation that runs when the device has finished. If some stages of the
    graph depend on each other, this function changes nothing and returns None.
    """
    works = _works(forward, backward)
    order = _order(works)
    if order is None:
        return None
    of_device: dict[str, list[_Work]] = defaultdict(list)
    for work in order:
        of_device[work.device].append(work)
    ended: Ended = {}
    for device, mine in of_device.items():
        last = when_ended(device, mine[0].operations)
        for _, work in pairwise(mine):
            begin_after(work.operations, [last])
            last = when_ended(device, work.operations, [last])
        ended[device] = [last]
    return ended


def _works(forward: Sequence[Phase], backward: Sequence[Phase]) -> list[_Work]:
    turns = Turns(_levels(forward), _levels(backward))
    works = []
    for microbatch, phase in enumerate(forward):
        for stage in phase.stages:
            turn = turns.forward(microbatch, stage[1]), 0, microbatch
            works.append(_Work(turn, stage[0], phase.operations(stage)))
    for microbatch, phase in enumerate(backward):
        for stage in phase.stages:
            operations, awaited = phase.operations(stage), phase.awaited(stage)
            inputs = [operation for operation in operations if operation.name in awaited]
            weights = [operation for operation in operations if operation.name not in awaited]
            if inputs:
                works.append(_Work((turns.inputs(microbatch, stage[1]), 1, microbatch), stage[0], inputs))
            if weights:
                works.append(_Work((turns.weights(microbatch, stage[1]), 2, microbatch), stage[0], weights))
    _find_needs(works)
    return works


def _levels(phases: Sequence[Phase]) -> int:
    return max((level for phase in phases for _, level in phase.stages), default=0)


def _find_needs(works: Sequence[_Work]) -> None:
    """Set ``needs`` of every piece of work, based on all paths through the graph."""
    number_of = {operation.name: number for number, work in enumerate(works) for operation in work.operations}
    through: dict[str, frozenset[int]] = {}
    """The pieces of work that lead to an operation that belongs to no piece, keyed by the operation's name."""

    def led_by(operation: tf.Operation) -> frozenset[int]:
        number = number_of.get(operation.name)
        return through.get(operation.name, frozenset()) if number is None else frozenset([number])

    def look(operation: tf.Operation) -> None:
        waiting, entered = [operation], set()
        while waiting:
            name = waiting[-1].name
            before = [one for one in _before(waiting[-1]) if one.name not in number_of and one.name not in through]
            if name in entered or not before:
                one = waiting.pop()
                through.setdefault(name, frozenset().union(*map(led_by, _before(one))))
                continue
            entered.add(name)
            waiting += before

    for number, work in enumerate(works):
        for operation in work.operations:
            for before in _before(operation):
                if before.name not in number_of and before.name not in through:
                    look(before)
                work.needs |= led_by(before)
        work.needs.discard(number)


def _before(operation: tf.Operation) -> Iterable[tf.Operation]:
    return [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]


def _order(works: Sequence[_Work]) -> list[_Work] | None:
    """Return the work in the order of turns, with each piece after those it needs, or None if this is impossible."""
    followers: dict[int, list[int]] = defaultdict(list)
    left = [len(work.needs) for work in works]
    for number, work in enumerate(works):
        for need in work.needs:
            followers[need].append(number)
    ready = [(work.turn, number) for number, work in enumerate(works) if not left[number]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, number = heapq.heappop(ready)
        order.append(works[number])
        for follower in followers[number]:
            left[follower] -= 1
            if not left[follower]:
                heapq.heappush(ready, (works[follower].turn, follower))
    return order if len(order) == len(works) else None
