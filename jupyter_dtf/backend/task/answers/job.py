"""What a client asks of a model, and what it gets back. Plain data; neither TensorFlow nor Keras is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..fit.job import Data
from ..model.keras_io import PackedModel


@dataclass
class AnswerJob:
    """One ``predict`` or ``evaluate``. The same for every task; fields named as in Keras mean the same."""

    model: PackedModel | Callable[[], Any]
    data: Data
    evaluates: bool = False
    batch_size: int | None = None
    steps: int | None = None
    """How many batches of all; None: until the data ends."""
    return_dict: bool = False
    how: dict[str, Any] = field(default_factory=dict)
    """``run_eagerly`` and ``jit_compile`` of a model that travels without how it is compiled."""
    keras_config: dict[str, Any] = field(default_factory=dict)
    """As in ``FitJob``."""


@dataclass
class Part:
    """What one task has answered."""

    structure: Any = None
    """That of the model's outputs, with the numbers of ``outputs`` at its leaves. None without a batch."""
    outputs: list[list[Any]] = field(default_factory=list)
    """For each output arrays, one after the other: of a batch each, or of several where those fit together."""
    in_turn: bool = False
    """Whether the tasks have taken batches in turn, rather than each a run of neighbours."""
    changed: dict[int, Any] = field(default_factory=dict)
    """What answering has changed of the model: by the number among ``states_of``, an array."""


@dataclass
class Evaluated:
    """What the chief knows at the end of an evaluation."""

    logs: dict[str, float]
    values: Any
    """The same as ``evaluate`` returns it: a list in the order of the metrics, or a number alone."""
    return_dict: bool = False
    changed: dict[int, Any] = field(default_factory=dict)
    """As in ``Part``."""
