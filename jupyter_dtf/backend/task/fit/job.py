"""Defines the job that a client sends, and the result that it receives: plain data that needs neither TensorFlow nor
Keras.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ....schema.checkpoint import Checkpoint
from ....schema.strategy import AllReduce, Strategy
from ..model.changed_attributes import ChangedAttributes
from ..model.keras_io import PackedModel
from ..model.model_state import ExtraState
from ..model.parts import Reference
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
    """A function that takes ``ctx`` and returns this task's own batched ``tf.data.Dataset``."""

    function: Callable[[Any], Any]


Data = Arrays | DataFunction | BatchSource


def name_of(data: Data | None) -> str:
    """Return the name that messages use for the data."""
    if isinstance(data, DataFunction):
        return "the dataset that the function returns"
    return data.what if isinstance(data, BatchSource) else "the data"


@dataclass
class PackedCallbacks:
    """The caller's Keras callbacks."""

    everywhere: list[bool] = field(default_factory=list)
    """For each callback, whether it runs on every task instead of only on the chief."""
    chiefs: bytes = b""
    """All callbacks, keyed by their index, pickled by ``Pickles``. They are pickled together, because they may refer to
    each other.
    """
    others: bytes = b""
    """The callbacks that run on every task, keyed by their index among all callbacks, pickled by ``Pickles``."""
    between_batches: bool = False
    """Whether a callback that is not Keras's own runs code before or after each batch."""
    batch_logs: bool = False
    """Whether a callback may use the logs of each batch."""

    def __len__(self) -> int:
        return len(self.everywhere)

    def places(self, is_chief: bool) -> list[int]:
        """Return the indices of the callbacks that run on the chief if ``is_chief`` is set, otherwise of the callbacks
        that run on the other tasks.
        """
        return [place for place, everywhere in enumerate(self.everywhere) if is_chief or everywhere]


@dataclass
class FitJob:
    """The arguments of one ``fit`` call, the same on every task. Fields named like arguments of ``keras.Model.fit``
    have the same meaning.
    """

    model: PackedModel | Callable[[], Any]
    data: Data
    validation_data: Data | None = None
    batch_size: int | None = None
    """The number of examples per step over all tasks together; used only for arrays."""
    validation_batch_size: int | None = None
    epochs: int = 1
    initial_epoch: int = 0
    began: int | None = None
    """The epoch at which a resumed training run originally began; None: the run is not resumed, and begins at
    ``initial_epoch``.
    """
    shuffle: bool = True
    class_weight: dict[int, float] | None = None
    steps_per_epoch: int | None = None
    validation_steps: int | None = None
    validation_freq: Any = 1
    callbacks: PackedCallbacks = field(default_factory=PackedCallbacks)
    strategy: Strategy = field(default_factory=AllReduce)
    seed: int = 0
    """The seed for the order of shuffled examples and for the tasks' random numbers."""
    scale_lr: bool = False
    """Whether the learning rate is multiplied by the number of tasks that share a step."""
    warmup_epochs: float = 0.0
    """The number of epochs over which the learning rate rises to the scaled rate."""
    layers: list[str] = field(default_factory=list)
    """The ids that the client and placements use for the model's layers, in the order in which the layers are called.
    """
    check: bool = True
    """Whether the first step of a model with custom parts is compared with the same step done by one task alone, and
    the outputs of the returned model are compared with the outputs that it had in its task.
    """
    checkpoint: Checkpoint | None = None
    """When checkpoints are written; None: never."""
    resume: str | None = None
    """The path of a checkpoint, or of a directory of checkpoints, to resume from."""
    keras_config: dict[str, Any] = field(default_factory=dict)
    """The client's Keras settings, which ``models.configure_keras`` applies in a task."""


@dataclass
class FitResult:
    """The result of a ``fit`` run, which the chief returns."""

    weights: list[Any]
    """The weights as arrays, in the order of ``model.weights``."""
    optimizer: list[Any]
    """The optimizer's variables as arrays, in the order of ``model.optimizer.variables``; empty if there is no
    optimizer.
    """
    batch: Any
    """The structure of a batch ``(x, y, sample_weight)``, with (shape, dtype) as leaves: sufficient to build a model
    that is not built yet.
    """
    history: dict[str, list[float]]
    epoch: list[int]
    callbacks: bytes
    """One dict of attributes for each of the caller's callbacks: a list, pickled by ``Pickles``."""
    updates: dict[str, dict[str, int]] = field(default_factory=dict)
    """With parameter servers, the numbers of gradients that were ``scheduled``, ``applied``, ``dropped`` or
    ``repeated`` (received twice, applied once), keyed by task.
    """
    more: ExtraState = field(default_factory=ExtraState)
    """The model's state other than its weights."""
    attributes: dict[Reference, ChangedAttributes] = field(default_factory=dict)
    """The plain attributes of the model and its parts that have changed, by the reference to the part."""
    params: dict[str, Any] = field(default_factory=dict)
    """Keras's ``params`` of the callbacks."""
    stop_training: bool = False
    """The model's ``stop_training`` at the end."""
    question: Question | None = None
    """An input with which the model was called at the end of training, and the model's output."""
