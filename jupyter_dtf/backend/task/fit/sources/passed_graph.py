"""What travels of a ``tf.data.Dataset``. Plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class PassedGraph:
    """The graph of a dataset, and what does not fit into a graph."""

    graph: bytes
    """A serialized GraphDef whose one ``_Retval`` is the dataset."""
    spec: Any
    """The dataset's ``element_spec``."""
    length: int
    """Its cardinality, as TensorFlow gives it."""
    constants: dict[str, Any] = field(default_factory=dict)
    """Arrays, by the name of the Placeholder that stands for each."""
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    """Python functions, by the token that the graph calls each by."""
    files: list[str] = field(default_factory=list)
    """Files of the caller's machine that the dataset reads."""
