"""Defines the parts of a ``tf.data.Dataset`` that are sent to tasks. Plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .....errors import InvalidInput


class OnlyWhereMade(InvalidInput):
    """Raised for a dataset that tasks would not read in the same way as the process that made it. ``why``: the reason,
    as a clause.
    """

    def __init__(self, why: str, field: str) -> None:
        super().__init__(f"The dataset can be read only in the process that made it: {why}", field=field)
        self.why = why


@dataclass
class PassedGraph:
    """The graph of a dataset, and the objects that cannot be part of a graph."""

    graph: bytes
    """A serialized GraphDef whose only ``_Retval`` is the dataset."""
    spec: Any
    """The dataset's ``element_spec``."""
    length: int
    """The dataset's cardinality in TensorFlow."""
    constants: dict[str, Any] = field(default_factory=dict)
    """Arrays, keyed by the names of the Placeholders that they are fed to."""
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    """Python functions, keyed by the tokens that the graph uses to call them."""
    files: list[str] = field(default_factory=list)
    """The paths of the files on the caller's machine that the dataset reads."""
