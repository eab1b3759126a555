"""Transfers between tasks during a session step. Pure.

A task logs each tensor that it receives, with the times at which it requested and received the tensor. If the sender's
operation ended after the request, the transfer starts when the operation ended: before that, the task was waiting for a
result, not for the network. The master enables this log with messages whose arrival it does not await, so transfers are
occasionally missing. Transfers that are in the graphs but not in the log are reconstructed: they start when the
sender's operation ended, and end when the first operation that uses the result began.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ....schema.trace import TracedOp, Transfer, task_of
from .device_names import plain

# "[1.0MB] [2.6Gb/s] edge_4_b from /job:... to /job:...": TensorFlow's WorkerCacheLogger.
_RECEIVED = re.compile(r"(?:\[[^\]]*\] )*(?P<edge>\S+) from (?P<source>/\S+) to (?P<target>/\S+)$")
_EDGE = re.compile(r"edge_\d+_(?P<op>.+)$")


class _Way(NamedTuple):
    """An edge of the graph between two devices."""

    edge: str
    source: str
    target: str


class Transfers:
    """The transfers of one step with operations ``ops``. Times are microseconds since the epoch, as in ``metadata``."""

    def __init__(self, metadata: Any, ops: Sequence[TracedOp], step: int, task: str) -> None:
        self._metadata = metadata
        self._ops = {(op.device, op.op): op for op in ops}
        self._step = step
        self._task = task
        self._seen: set[_Way] = set()

    def found(self) -> list[Transfer]:
        """Return all transfers, logged ones first."""
        return [*self._logged(), *self._unlogged()]

    def _logged(self) -> Iterator[Transfer]:
        for stats in self._metadata.step_stats.dev_stats:
            for node in stats.node_stats:
                match = _RECEIVED.search(node.timeline_label) if node.node_name == "RecvTensor" else None
                if match is not None:
                    way = self._way(match["edge"], match["source"], match["target"])
                    self._seen.add(way)
                    end = node.all_start_micros + node.all_end_rel_micros
                    size = sum(
                        output.tensor_description.allocation_description.requested_bytes for output in node.output
                    )
                    yield self._transfer(way, node.all_start_micros, end, size)

    def _unlogged(self) -> Iterator[Transfer]:
        made = {
            (plain(stats.device, self._task), node.node_name): node
            for stats in self._metadata.step_stats.dev_stats
            for node in stats.node_stats
        }
        for part in self._metadata.partition_graphs:
            for node in part.node:
                if node.op != "_Send" or node.attr["client_terminated"].b:
                    continue
                way = self._way(*(node.attr[key].s.decode() for key in ("tensor_name", "send_device", "recv_device")))
                name, _, slot = node.input[0].partition(":")
                sender = self._ops.get((way.source, name))
                if sender is None or way in self._seen or task_of(way.source) == task_of(way.target):
                    continue
                ready = sender.start_us + sender.duration_us
                yield self._transfer(way, ready, self._used(way, ready), _size(made[way.source, name], int(slot or 0)))

    def _used(self, way: _Way, least: float) -> float:
        """Return the start of the first operation that uses the tensor, or the end of the step if none is known, but at
        least ``least``.
        """
        users = []
        for part in self._metadata.partition_graphs:
            received = {n.name for n in part.node if n.op == "_Recv" and n.attr["tensor_name"].s.decode() == way.edge}
            for node in part.node:
                op = self._ops.get((way.target, node.name))
                if op and any(source.partition(":")[0].removeprefix("^") in received for source in node.input):
                    users.append(op.start_us)
        return max(least, min(users, default=max(op.start_us + op.duration_us for op in self._ops.values())))

    def _way(self, edge: str, source: str, target: str) -> _Way:
        return _Way(edge, plain(source, self._task), plain(target, self._task))

    def _transfer(self, way: _Way, asked: float, end: float, size: int) -> Transfer:
        match = _EDGE.match(way.edge)
        tensor = match["op"] if match else way.edge
        sender = self._ops.get((way.source, tensor))
        ready = sender.start_us + sender.duration_us if sender else asked
        start = min(max(asked, ready), end)
        return Transfer(
            step=self._step,
            tensor=tensor,
            source=way.source,
            target=way.target,
            bytes=size,
            start_us=start,
            duration_us=end - start,
        )


def _size(node: Any, slot: int) -> int:
    """Return the size of one output of an operation in bytes."""
    return sum(
        output.tensor_description.allocation_description.requested_bytes
        for output in node.output
        if output.slot == slot
    )
