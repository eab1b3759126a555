"""RunMetadata of a session's step as rows. Pure: reads the protocol buffer's fields, whoever decoded it."""

from __future__ import annotations

import re
from typing import Any

from ....schema.trace import TraceData, TracedOp, Transfer, relative
from .devices import plain

_INTERNAL = ("_SOURCE", "_SINK")
# "[1.0MB] [2.6Gb/s] edge_4_b from /job:... to /job:...": TensorFlow's WorkerCacheLogger.
_RECEIVED = re.compile(r"(?:\[[^\]]*\] )*(?P<edge>\S+) from (?P<source>/\S+) to (?P<target>/\S+)$")
_EDGE = re.compile(r"edge_\d+_(?P<op>.+)$")
# "[mklcpu 1.0MB 1.0MB] b = _MklMatMul(a, a)"
_LABEL = re.compile(r"(?:^|\s)\S+ = (?P<type>\w+)\(")


def rows(metadata: Any, step: int, task: str = "") -> TraceData:
    """The operations and transfers of one step. ``task``: whose devices the local ones are, ``/job:worker/task:1``.

    TensorFlow logs a transfer from when the receiver asks. Where the sender's operation ended later, the transfer
    starts there: what came before was waiting for a result, not for the network.
    """
    types = {
        (plain(node.device, task), node.name): node.op for graph in metadata.partition_graphs for node in graph.node
    }
    ops = []
    received = []
    ended: dict[tuple[str, str], float] = {}
    for device_stats in metadata.step_stats.dev_stats:
        device = plain(device_stats.device, task)
        for node in device_stats.node_stats:
            if node.node_name == "RecvTensor":
                received.append(node)
            elif node.node_name not in _INTERNAL:
                op = _op(node, types, step, device)
                ended[device, op.op] = op.start_us + op.duration_us
                ops.append(op)
    transfers = [transfer for node in received if (transfer := _transfer(node, step, task, ended))]
    return relative(ops, transfers)


def _op(node: Any, types: dict[tuple[str, str], str], step: int, device: str) -> TracedOp:
    return TracedOp(
        step=step,
        op=node.node_name,
        op_type=types.get((device, node.node_name)) or _type_of(node.timeline_label),
        device=device,
        start_us=node.all_start_micros + node.op_start_rel_micros,
        duration_us=max(node.op_end_rel_micros - node.op_start_rel_micros, 0),
    )


def _type_of(label: str) -> str:
    match = _LABEL.search(label)
    return match["type"] if match else ""


def _transfer(node: Any, step: int, task: str, ended: dict[tuple[str, str], float]) -> Transfer | None:
    match = _RECEIVED.search(node.timeline_label)
    if match is None:
        return None
    edge = _EDGE.match(match["edge"])
    tensor = edge["op"] if edge else match["edge"]
    source = plain(match["source"], task)
    end = node.all_start_micros + node.all_end_rel_micros
    start = min(max(node.all_start_micros, ended.get((source, tensor), 0.0)), end)
    size = sum(output.tensor_description.allocation_description.requested_bytes for output in node.output)
    return Transfer(
        step=step,
        tensor=tensor,
        source=source,
        target=plain(match["target"], task),
        bytes=size,
        start_us=start,
        duration_us=end - start,
    )
