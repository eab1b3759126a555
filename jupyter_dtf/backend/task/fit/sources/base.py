"""The contract of data that comes in batches, of each of which every task takes its share.

A source travels with its job, pickled, and is opened in every task. It is the same data as one process would read: the
same batches in the same order, so that training on shares of them gives the weights of one process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Share:
    """The part that a task takes of every batch; parts differ by at most one example. ``bounds``: as neighbours."""

    rank: int
    size: int

    def bounds(self, examples: Any) -> tuple[Any, Any]:
        """Where the part begins and ends of so many examples: whole numbers, or integer tensors of shape ()."""
        return examples * self.rank // self.size, examples * (self.rank + 1) // self.size


@dataclass(frozen=True)
class Reading:
    """How a task reads a source. Nothing of this but ``share`` differs between the tasks."""

    field: str
    """Which argument it came by, for messages: ``x`` or ``validation_data``."""
    share: Share
    seed: int | None = None
    """What an order that is drawn here is drawn from; None keeps the order."""
    first_epoch: int = 0
    """The epoch that the first pass is."""
    batch_size: int | None = None
    """Examples in a step of all tasks together, where the source itself has no batches."""
    steps: int | None = None
    """Batches of an epoch or a validation, where the person has said so."""
    passes: int = 0
    """How many passes a training from epoch 0 would have made before."""
    passes_before: int = 0
    """How many of them were before the training began that goes on here, with epoch ``began``."""
    within: int = 0
    """Batches of the first epoch that have been trained on already; of a source that ``continues``, which leaves them
    out itself.
    """
    passed: int = 0
    """The same of the epochs before it, since the training began, where ``steps`` says how long they are."""
    takes: int = 0
    """Unless 0, there is an empty batch in the place of each that is left out of the first epoch."""
    began: int = 0
    """The epoch with which the training began that goes on with ``first_epoch``."""
    own_seed: int = 0
    """What a source draws from that shuffles by itself, whatever ``seed`` says, and code of the caller's: all tasks
    have to draw the same.
    """
    in_step: bool = True
    """Whether every batch is read by all tasks of ``share``: whoever waits for another task's reading gets it."""


@dataclass
class Opened:
    """A source in a task."""

    dataset: Any
    """A ``tf.data.Dataset`` of this task's shares of the batches, structured as Keras packs them: ``x``, ``(x, y)`` or
    ``(x, y, sample_weight)``. An iteration is a pass. A share may hold no examples, where a batch has too few.
    """
    length: int | None
    """Batches in a pass; -1 if it is endless, None if it is not known. The same in every task."""
    smallest: int | None = None
    """Examples in the smallest batch; None if it is not known."""
    first_batches: Callable[[int], list[Any]] | None = None
    """The first so many batches, whole, where that is cheap and takes nothing away from the training."""
    standing: Callable[[int, int, int | None], Any] | None = None
    """``(epochs, steps, steps_per_epoch)``: the dataset as it stands after so many epochs of ``steps_per_epoch`` steps
    (None: of a pass) and so many steps of the next; where that is more than its first pass without these batches. And
    how many batches of the pass under way the epochs before have had.
    """
    seen: int = 0
    """Batches of the pass under way that the epochs before ``Reading.first_epoch`` have had."""
    division: str = ""
    """How the reading is divided among the tasks, in a sentence for the person."""


class BatchSource(ABC):
    """One form of data. Its fields are plain, or pickled by value: a task has none of the caller's modules."""

    what: ClassVar[str] = "the data"
    """How messages call it."""
    has_own_batches: ClassVar[bool] = True
    """Whether a step's batch is the source's own, rather than of ``batch_size`` examples."""
    runs_own_code: ClassVar[bool] = True
    """Whether opening it runs code of the caller's, which may set TensorFlow up in its own way."""
    weighs_other_classes: ClassVar[bool] = False
    """Whether classes that ``class_weight`` does not name weigh 1, as Keras has it for this form of data."""
    continues: ClassVar[bool] = False
    """Whether it can be read only once: an iteration of its dataset goes on where the last one ended."""

    @property
    def batches(self) -> int | None:
        """How many there are in a pass, where that is known before it is opened; -1 if it is endless."""
        return None

    @property
    def examples(self) -> int | None:
        """How many there are in a pass, where that is known before it is opened."""
        return None

    @abstractmethod
    def open(self, ctx: Any, reading: Reading) -> Opened:
        """Read it in a task. No collective. Raises InvalidInput for data that cannot be used."""

    def leave(self, ctx: Any, share: Share) -> None:
        """A task's program has ended, whether it has opened the source or not, and read it to its end or not: tasks
        that go on do not wait for its part in their reading. Raises nothing.
        """
        return  # of most, each task reads by itself
