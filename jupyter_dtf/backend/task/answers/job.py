"""The request of a ``predict`` or ``evaluate`` call, and its results. Plain data, without TensorFlow or Keras."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..fit.job import Data
from ..model.keras_io import PackedModel


@dataclass
class AnswerJob:
    """One ``predict`` or ``evaluate`` call, the same for every task. Fields named as in Keras have the same meaning."""

    model: PackedModel | Callable[[], Any]
    data: Data
    evaluates: bool = False
    batch_size: int | None = None
    steps: int | None = None
    """The number of batches over all tasks; None for all of the data."""
    return_dict: bool = False
    how: dict[str, Any] = field(default_factory=dict)
    """The values of ``run_eagerly`` and ``jit_compile``, for a model that is sent without its compile arguments."""
    keras_config: dict[str, Any] = field(default_factory=dict)
    """See ``FitJob.keras_config``."""


@dataclass
class Part:
    """The predictions of one task."""

    structure: Any = None
    """The structure of the model's outputs, with indices into ``outputs`` as leaves. None if there was no batch."""
    outputs: list[list[Any]] = field(default_factory=list)
    """For each output, consecutive arrays: one per batch, or fewer if the shapes allow joining them."""
    in_turn: bool = False
    """Whether tasks took batches in turn, rather than contiguous ranges."""
    changed: dict[int, Any] = field(default_factory=dict)
    """The states of the model that have changed during prediction: arrays keyed by their index in ``states_of``."""


@dataclass
class Evaluated:
    """The combined result of an ``evaluate`` call, which the chief returns."""

    logs: dict[str, float]
    values: Any
    """The values of ``logs`` in the form that ``evaluate`` returns: a list in the order of the metrics, or one number.
    """
    return_dict: bool = False
    changed: dict[int, Any] = field(default_factory=dict)
    """See ``Part.changed``."""
