"""Determines what happened to explicitly placed operations, from the program's graph and the graphs that ran. Pure.

TensorFlow optimizes a graph before running it: operations that depend only on constants are computed once, in the
client's own task, regardless of their devices; other operations are fused into others, or removed. All of this happens
silently. Arithmetic on shapes is ignored here, because it is always folded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from .device_names import plain, satisfies

# These compute nothing, or only a shape, so their placement does not matter.
_TRIVIAL = frozenset(
    {
        "Const",
        "ExpandDims",
        "Fill",
        "Identity",
        "NoOp",
        "Placeholder",
        "PlaceholderWithDefault",
        "Rank",
        "Reshape",
        "Shape",
        "ShapeN",
        "Size",
        "Squeeze",
    }
)
_INT32 = 3  # DT_INT32: sizes and indices, which TensorFlow keeps in host memory
# TensorFlow replaces these with the operations of their bodies, whose names are derived from the call's name.
_INLINED = frozenset(
    {
        "Case",
        "If",
        "PartitionedCall",
        "StatefulPartitionedCall",
        "StatelessCase",
        "StatelessIf",
        "StatelessWhile",
        "While",
    }
)


class Displaced(NamedTuple):
    """An operation that did not run where it was placed, or not in its original form."""

    op: str
    op_type: str
    placed: str
    what: str
    """``folded``, ``fused``, ``removed`` or ``elsewhere``."""
    into: str = ""
    """The node that contains its result or has replaced it, followed by that node's type."""
    ran: str = ""

    @property
    def text(self) -> str:
        """A sentence that tells the user what happened to the operation."""
        head = f"{self.op} ({self.op_type}), placed on {self.placed}, "
        if self.what == "elsewhere":
            return f"{head}ran on {self.ran}"
        if self.what == "folded":
            return (
                f"{head}did not run: its value depends on constants alone and was computed once, before the first step "
                f"(see {self.into}). It would run if its inputs were fed through placeholders"
            )
        if self.what == "fused":
            return f"{head}ran as a part of {self.into} on {self.ran}"
        return f"{head}did not run: TensorFlow's optimizer dropped or merged it"


def displaced(
    graph: Any,
    ran: Iterable[Any],
    fetched: Iterable[str] | None = None,
    fed: Iterable[str] = (),
    *,
    task: str = "",
) -> list[Displaced]:
    """Return the operations with an explicit device that did not run there, or not in their original form.

    Args:
        graph: The program's GraphDef.
        ran: The partition graphs.
        fetched: Names of fetched operations. Only operations that these need are checked; None: all operations.
        fed: Names of operations that are fed.
        task: The task of local devices, such as ``/job:worker/task:1``.
    """
    nodes = {node.name: node for node in graph.node}
    executed = {node.name: node for part in ran for node in part.node}
    needed = set(nodes) if fetched is None else _needed(nodes, fetched, frozenset(fed))
    consumers: dict[str, list[str]] = defaultdict(list)
    for name in needed:
        for source in _sources(nodes[name]):
            consumers[source].append(name)
    scopes = {"/".join(name.split("/")[:depth]) for name in executed for depth in range(1, name.count("/") + 1)}
    found = []
    for name, node in nodes.items():
        if name not in needed or not node.device or node.op in _TRIVIAL or node.attr["T"].type == _INT32:
            continue
        if node.op in _INLINED and name in scopes:
            continue
        if result := _fate(node, nodes, executed, consumers, task):
            found.append(result)
    return found


def _sources(node: Any) -> list[str]:
    return [source.removeprefix("^").partition(":")[0] for source in node.input]


def _needed(nodes: dict[str, Any], fetched: Iterable[str], fed: frozenset[str]) -> set[str]:
    needed: set[str] = set()
    ahead = [name for name in fetched if name in nodes]
    while ahead:
        name = ahead.pop()
        if name not in needed and name not in fed:
            needed.add(name)
            ahead += [source for source in _sources(nodes[name]) if source in nodes]
    return needed


def _fate(
    node: Any, nodes: dict[str, Any], executed: dict[str, Any], consumers: dict[str, list[str]], task: str
) -> Displaced | None:
    placed = plain(node.device, task) or node.device
    same = executed.get(node.name)
    if same is not None:
        if same.op == "Const":
            return Displaced(node.name, node.op, placed, "folded", node.name)
        if not satisfies(plain(same.device, task), plain(node.device, task)):
            return Displaced(node.name, node.op, placed, "elsewhere", ran=plain(same.device, task))
        return None
    heirs = _heirs(node.name, executed, consumers)
    for heir in heirs:
        if "Fused" in heir.op and heir.op != nodes[heir.name].op:
            return Displaced(node.name, node.op, placed, "fused", f"{heir.name} ({heir.op})", plain(heir.device, task))
    for heir in heirs:
        if heir.op == "Const" != nodes[heir.name].op:
            return Displaced(node.name, node.op, placed, "folded", heir.name)
    if any(name.startswith(f"ConstantFolding/{node.name}") for name in executed):
        return Displaced(node.name, node.op, placed, "folded", node.name)
    return Displaced(node.name, node.op, placed, "removed")


def _heirs(name: str, executed: dict[str, Any], consumers: dict[str, list[str]]) -> list[Any]:
    """Return the nearest downstream operations that ran."""
    found, seen, ahead = [], {name}, list(consumers[name])
    while ahead:
        following = ahead.pop(0)
        if following in seen:
            continue
        seen.add(following)
        if following in executed:
            found.append(executed[following])
        else:
            ahead += consumers[following]
    return found
