"""Graphs with the fields of GraphDef that are read, without TensorFlow."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


def _no_attributes() -> Any:
    return defaultdict(lambda: SimpleNamespace(type=0))


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
