"""Graphs with those fields of GraphDef that are read, without TensorFlow."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


def _no_attributes() -> Any:
    return defaultdict(lambda: SimpleNamespace(type=0, b=False, s=b""))


@dataclass
class Node:
    name: str
    op: str
    input: tuple[str, ...] = ()
    device: str = ""
    attr: Any = field(default_factory=_no_attributes)


@dataclass
class Graph:
    node: list[Node]


def int32() -> Any:
    return {"T": SimpleNamespace(type=3)}


def between(edge: str, source: str, target: str) -> Any:
    """Return the attributes of a ``_Send`` and its ``_Recv``."""
    texts = {"tensor_name": edge, "send_device": source, "recv_device": target}
    found = _no_attributes()
    found.update({key: SimpleNamespace(s=text.encode()) for key, text in texts.items()})
    return found
