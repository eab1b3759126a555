"""The job that a client sends, and the result that it receives: plain data that needs neither TensorFlow nor Keras."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ....schema.checkpoint import Checkpoint
from ....schema.strategy import AllReduce, Strategy
from ..model.keras_io import PackedModel
from ..model.model_state import ExtraState
from ..model.questions import Question
from .sources.base import BatchSource


@dataclass
class Arrays:
    """Examples in memory: ``x``, ``y`` and ``sample_weight`` are arrays, or dicts, lists or tuples of arrays."""

    x: Any
    y: Any = None
    sample_weight: Any = None


@dataclass
class DataFunction:
    """A function of ``ctx`` that returns this task's own batched ``tf.data.Dataset``."""

    function: Callable[[Any], Any]


Data = Arrays | DataFunction | BatchSource


def name_of(data: Data | None) -> str:
    """Return the name of the data in messages."""
    if isinstance(data, DataFunction):
        return "the dataset that the function returns"
    return data.what if isinstance(data, BatchSource) else "the data"


@dataclass
class PackedCallbacks:
    """The caller's Keras callbacks."""

    everywhere: list[bool] = field(default_factory=list)
    """For each, whether it runs on every task, rather than only on the chief."""
    chiefs: bytes = b""
    """All of them by number, as pickled by ``Pickles``: together, since they may refer to each other."""
    others: bytes = b""
    """The same for the callbacks that run on every task."""
    between_batches: bool = False
    """Whether one of them, other than Keras's own, runs code before or after each batch."""

    def __len__(self) -> int:
        return len(self.everywhere)

    def places(self, is_chief: bool) -> list[int]:
        """Return the numbers of the callbacks that run on the chief, or on another task."""
        return [place for place, everywhere in enumerate(self.everywhere) if is_chief or everywhere]


@dataclass
class FitJob:
    """The arguments of one ``fit``, the same on every task. Fields named as in ``keras.Model.fit`` mean the same."""

    model: PackedModel | Callable[[], Any]
    data: Data
    validation_data: Data | None = None
    batch_size: int | None = None
    """Examples per step over all tasks together; arrays only."""
    validation_batch_size: int | None = None
    epochs: int = 1
    initial_epoch: int = 0
    began: int | None = None
    """The first epoch of a training that is resumed at ``initial_epoch``; None: ``initial_epoch``."""
    shuffle: bool = True
    class_weight: dict[int, float] | None = None
    steps_per_epoch: int | None = None
    validation_steps: int | None = None
    validation_freq: Any = 1
    callbacks: PackedCallbacks = field(default_factory=PackedCallbacks)
    strategy: Strategy = field(default_factory=AllReduce)
    seed: int = 0
    """The seed of the order of shuffled examples and of the tasks' random numbers."""
    scale_lr: bool = False
    """Whether the learning rate is multiplied by the number of tasks that share a step."""
    warmup_epochs: float = 0.0
    """The number of epochs over which the learning rate rises to the scaled rate."""
    layers: list[str] = field(default_factory=list)
    """The ids of the model's layers as used by the client and by placements, in the order of their calls."""
    check: bool = True
    """Whether the first step of a model with custom parts is compared with the same step done alone, and the outputs of
    the returned model with those in its task.
    """
    checkpoint: Checkpoint | None = None
    """When checkpoints are written; None: never."""
    resume: str | None = None
    """The path of the checkpoint to resume from, or of a directory of checkpoints."""
    keras_config: dict[str, Any] = field(default_factory=dict)
    """The client's Keras settings, as set by ``models.configure_keras``."""


@dataclass
class FitResult:
    """The result of a fit, which the chief returns."""

    weights: list[Any]
    """Arrays in the order of ``model.weights``."""
    optimizer: list[Any]
    """Arrays in the order of ``model.optimizer.variables``; empty without an optimizer."""
    batch: Any
    """``(x, y, sample_weight)`` as (shape, dtype) leaves: enough to build a model that is not built yet."""
    history: dict[str, list[float]]
    epoch: list[int]
    callbacks: bytes
    """A dict of the attributes of each of the caller's callbacks, in a list pickled by ``Pickles``."""
    updates: dict[str, dict[str, int]] = field(default_factory=dict)
    """With parameter servers, by task, the numbers of gradients that were ``scheduled``, ``applied``, ``dropped`` or
    ``repeated`` (received twice, applied once).
    """
    more: ExtraState = field(default_factory=ExtraState)
    """The model's state besides its weights."""
    question: Question | None = None
    """An input with which the model was called at the end, and its output."""
