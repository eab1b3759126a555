"""What a client asks the tasks to train, and what it gets back. Plain data; neither TensorFlow nor Keras is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ....schema.checkpoint import Checkpoint
from ....schema.strategy import AllReduce, Strategy
from ..model.keras_io import PackedModel
from ..model.model_state import MoreState
from ..model.questions import Question
from .sources.base import BatchSource


@dataclass
class Arrays:
    """Examples held in memory: ``x``, ``y`` and ``sample_weight`` are arrays or dicts, lists, tuples of them."""

    x: Any
    y: Any = None
    sample_weight: Any = None


@dataclass
class DataFunction:
    """A function of ``ctx`` that returns this task's own ``tf.data.Dataset``, batched."""

    function: Callable[[Any], Any]


Data = Arrays | DataFunction | BatchSource


def name_of(data: Data | None) -> str:
    """What messages call the data."""
    if isinstance(data, DataFunction):
        return "the dataset that the function returns"
    return data.what if isinstance(data, BatchSource) else "the data"


@dataclass
class PackedCallback:
    """A Keras callback of the caller's."""

    data: bytes
    """Cloudpickle of it."""
    everywhere: bool
    """Whether it runs on every task rather than on the chief."""


@dataclass
class FitJob:
    """One ``fit``. The same for every task; fields named as in ``keras.Model.fit`` mean the same."""

    model: PackedModel | Callable[[], Any]
    data: Data
    validation_data: Data | None = None
    batch_size: int | None = None
    """Examples in a step of all tasks together; arrays only."""
    validation_batch_size: int | None = None
    epochs: int = 1
    initial_epoch: int = 0
    began: int | None = None
    """The epoch with which the training began that goes on with ``initial_epoch``; None: that one."""
    shuffle: bool = True
    class_weight: dict[int, float] | None = None
    steps_per_epoch: int | None = None
    validation_steps: int | None = None
    validation_freq: Any = 1
    callbacks: list[PackedCallback] = field(default_factory=list)
    strategy: Strategy = field(default_factory=AllReduce)
    seed: int = 0
    """What the order of shuffled examples and the tasks' random numbers are drawn from."""
    scale_lr: bool = False
    """Whether the learning rate is multiplied by the number of tasks that share a step."""
    warmup_epochs: float = 0.0
    """Over how many epochs the learning rate rises to that."""
    layers: list[str] = field(default_factory=list)
    """The ids of the model's layers as the client, and a placement, knows them; in the order of their calls."""
    check: bool = True
    """Whether the first step of a model with parts of its own is held against the same step done alone, and the model
    that comes home is asked whether it answers as it did in its task.
    """
    checkpoint: Checkpoint | None = None
    """When checkpoints are written; None: never."""
    resume: str | None = None
    """The path of the checkpoint to go on from, or of a directory of some."""
    keras_config: dict[str, Any] = field(default_factory=dict)
    """The client's Keras settings: ``floatx``, ``dtype_policy``, ``image_data_format``."""


@dataclass
class FitResult:
    """What the chief hands back."""

    weights: list[Any]
    """Arrays in the order of ``model.weights``."""
    optimizer: list[Any]
    """Arrays in the order of ``model.optimizer.variables``; empty without an optimizer."""
    batch: Any
    """``(x, y, sample_weight)`` as (shape, dtype) leaves: enough to build a model that is not built yet."""
    history: dict[str, list[float]]
    epoch: list[int]
    callbacks: list[bytes]
    """For each callback of the caller a dict of its attributes, cloudpickled."""
    updates: dict[str, dict[str, int]] = field(default_factory=dict)
    """With parameter servers, by task, what became of its gradients: ``scheduled``, ``applied``, ``dropped``,
    ``repeated`` (received twice, applied once).
    """
    more: MoreState = field(default_factory=MoreState)
    """What the model holds beside its weights."""
    question: Question | None = None
    """What the model was asked at the end, with its answer."""
