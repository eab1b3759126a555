"""Conversion of a session step's RunMetadata to rows of a trace. Pure: only reads fields of decoded messages."""

from __future__ import annotations

import re
from typing import Any

from ....schema.trace import TraceData, TracedOp, relative
from .device_names import plain
from .transfers import Transfers

_NO_OPERATIONS = ("_SOURCE", "_SINK", "RecvTensor")
# TensorFlow 2.21 lists each kernel and copy of a GPU once more, without its task, under "/device:GPU:0/stream:all" etc.
_NO_DEVICE = re.compile(r"/(?:stream:.*|memcpy|sync)$")
# For example, "[mklcpu 1.0MB 1.0MB] b = _MklMatMul(a, a)"
_LABEL = re.compile(r"(?:^|\s)\S+ = (?P<type>\w+)\(")


def rows(metadata: Any, step: int, task: str = "") -> TraceData:
    """Return the operations and transfers of one step.

    ``task`` is the task of local devices, such as ``/job:worker/task:1``.
    """
    types = {
        (plain(node.device, task), node.name): node.op for graph in metadata.partition_graphs for node in graph.node
    }
    ops = [
        _op(node, types, step, plain(stats.device, task))
        for stats in metadata.step_stats.dev_stats
        if _NO_DEVICE.search(stats.device) is None
        for node in stats.node_stats
        if node.node_name not in _NO_OPERATIONS
    ]
    return relative(ops, Transfers(metadata, ops, step, task).found())


def _op(node: Any, types: dict[tuple[str, str], str], step: int, device: str) -> TracedOp:
    match = _LABEL.search(node.timeline_label)
    return TracedOp(
        step=step,
        op=node.node_name,
        op_type=types.get((device, node.node_name)) or (match["type"] if match else ""),
        device=device,
        start_us=node.all_start_micros + node.op_start_rel_micros,
        duration_us=max(node.op_end_rel_micros - node.op_start_rel_micros, 0),
    )
