"""The contract of data in batches, of each of which every task takes its share.

A source is pickled with its job, and is opened in every task. It yields the data that one process would read, in the
same batches and order, so that training on shares of them gives the weights of one process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Share:
    """A task's part of every batch; parts differ by at most one example. ``bounds``: as consecutive parts."""

    rank: int
    size: int

    def bounds(self, examples: Any) -> tuple[Any, Any]:
        """Return the start and end of the part, for a number of examples: integers, or integer tensors of shape ()."""
        return examples * self.rank // self.size, examples * (self.rank + 1) // self.size


@dataclass(frozen=True)
class Reading:
    """How a task reads a source. Only ``share`` differs between the tasks."""

    field: str
    """The argument's name, for messages: ``x`` or ``validation_data``."""
    share: Share
    seed: int | None = None
    """The seed of an order that is drawn here; None keeps the order."""
    first_epoch: int = 0
    """The epoch of the first pass."""
    batch_size: int | None = None
    """Examples per step over all tasks together, if the source itself has no batches."""
    steps: int | None = None
    """Batches per epoch or validation, if the user has specified them."""
    passes: int = 0
    """The number of earlier passes that a training from epoch 0 would have made."""
    passes_before: int = 0
    """The number of these passes before the training started, with epoch ``began``, that is resumed here."""
    within: int = 0
    """Batches of the first epoch that have already been trained on, for a source that ``continues`` and skips them
    itself.
    """
    passed: int = 0
    """The same for the previous epochs of this training, if ``steps`` determines their length."""
    takes: int = 0
    """Unless 0, there is an empty batch in the place of each skipped batch of the first epoch."""
    began: int = 0
    """The first epoch of the training that is resumed at ``first_epoch``."""
    own_seed: int = 0
    """The seed of sources that shuffle by themselves, regardless of ``seed``, and of the caller's code, because all
    tasks must draw the same.
    """
    in_step: bool = True
    """Whether every batch is read by all tasks of ``share``, so that waiting for another task's reading ends."""


@dataclass
class Opened:
    """A source in a task."""

    dataset: Any
    """A ``tf.data.Dataset`` of this task's shares of the batches, structured as Keras packs them: ``x``, ``(x, y)`` or
    ``(x, y, sample_weight)``. An iteration is a pass. A share has no examples if its batch has too few.
    """
    length: int | None
    """Batches in a pass; -1 if it is endless, None if unknown. The same in every task."""
    smallest: int | None = None
    """Examples in the smallest batch; None if unknown."""
    first_batches: Callable[[int], list[Any]] | None = None
    """Returns the first ``count`` global batches, if that is cheap and takes nothing away from the training."""
    standing: Callable[[int, int, int | None], Any] | None = None
    """``(epochs, steps, steps_per_epoch)``: returns the dataset after ``epochs`` epochs of ``steps_per_epoch`` steps
    (None: a pass) and ``steps`` steps of the next, and how many batches of the current pass earlier epochs have taken.
    Set if this is more than the first pass without these batches.
    """
    seen: int = 0
    """Batches of the current pass that epochs before ``Reading.first_epoch`` have taken."""
    division: str = ""
    """A sentence for the user on how reading is divided among the tasks."""


class BatchSource(ABC):
    """One form of data. Its fields are plain, or pickled by value, because a task has none of the caller's modules."""

    what: ClassVar[str] = "the data"
    """Its name in messages."""
    has_own_batches: ClassVar[bool] = True
    """Whether a step's batch is the source's own, rather than of ``batch_size`` examples."""
    runs_own_code: ClassVar[bool] = True
    """Whether opening it runs the caller's code, which may configure TensorFlow."""
    weighs_other_classes: ClassVar[bool] = False
    """Whether classes that ``class_weight`` does not name have the weight 1, as in Keras for this form of data."""
    continues: ClassVar[bool] = False
    """Whether it can be read only once: an iteration of its dataset continues where the last one ended."""

    @property
    def batches(self) -> int | None:
        """The number of batches in a pass, if known before it is opened; -1 if it is endless."""
        return None

    @property
    def examples(self) -> int | None:
        """The number of examples in a pass, if known before it is opened."""
        return None

    @abstractmethod
    def open(self, ctx: Any, reading: Reading) -> Opened:
        """Open it in a task. Not a collective. Raises InvalidInput for unusable data."""

    def leave(self, ctx: Any, share: Share) -> None:
        """Release tasks that wait for this task's part in reading, after its program has ended. Raises nothing.

        Called whether or not the task has opened the source, or read it to its end.
        """
        return  # with most sources, each task reads by itself
