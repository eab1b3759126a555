"""The interface of data sources in batches: each task takes its share of every batch.

A source is pickled with its job, and is opened in every task. It yields the data that one process would read, in the
same batches and order, so that training on the shares gives the same weights as training in one process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Share:
    """A task's part of every batch. Part sizes differ by at most one example; ``bounds`` gives consecutive parts."""

    rank: int
    size: int

    def bounds(self, examples: Any) -> tuple[Any, Any]:
        """Return the start and end of the part, given the batch's number of examples: integers, or integer tensors of
        shape ().
        """
        return examples * self.rank // self.size, examples * (self.rank + 1) // self.size


@dataclass(frozen=True)
class Reading:
    """How a task reads a source. Only ``share`` differs between the tasks."""

    field: str
    """The argument's name, for messages: ``x`` or ``validation_data``."""
    share: Share
    seed: int | None = None
    """The seed with which the source is shuffled; None keeps its order."""
    first_epoch: int = 0
    """The epoch of the first pass."""
    batch_size: int | None = None
    """Examples per step over all tasks together, if the source itself has no batches."""
    steps: int | None = None
    """Batches per epoch or validation, if specified by the user."""
    passes: int = 0
    """The number of passes that a training from epoch 0 would already have made."""
    passes_before: int = 0
    """The number of these passes that precede epoch ``began``, with which the resumed training started."""
    within: int = 0
    """Batches of the first epoch that have already been trained on, for a source that ``continues`` and skips them
    itself.
    """
    passed: int = 0
    """Like ``within``, for the previous epochs of this training, if ``steps`` determines their length."""
    takes: int = 0
    """If not 0, each skipped batch of the first epoch is replaced by an empty one."""
    began: int = 0
    """The first epoch of the training that is resumed at ``first_epoch``."""
    own_seed: int = 0
    """The seed for sources that do their own shuffling, regardless of ``seed``, and for the caller's code: all tasks
    must draw the same numbers.
    """
    in_step: bool = True
    """Whether all tasks of ``share`` read every batch, so that waiting for another task to read always ends."""


@dataclass
class Opened:
    """A source opened in a task."""

    dataset: Any
    """A ``tf.data.Dataset`` of this task's shares of the batches, structured as Keras packs them: ``x``, ``(x, y)`` or
    ``(x, y, sample_weight)``. Each iteration is one pass. A share is empty if its batch has too few examples.
    """
    length: int | None
    """Batches in a pass; -1 if it is endless, None if unknown. The same in every task."""
    smallest: int | None = None
    """Examples in the smallest batch; None if unknown."""
    first_batches: Callable[[int], list[Any]] | None = None
    """Returns the first ``count`` global batches. None unless this is cheap and uses up no data of the training."""
    standing: Callable[[int, int, int | None], Any] | None = None
    """Called with ``(epochs, steps, steps_per_epoch)``: returns the dataset as it is after ``epochs`` epochs of
    ``steps_per_epoch`` steps (None: a pass) and ``steps`` steps of the next epoch, and the number of batches of the
    current pass that earlier epochs have taken. Set if skipping batches of the first pass would not be enough.
    """
    seen: int = 0
    """Batches of the current pass that epochs before ``Reading.first_epoch`` have taken."""
    division: str = ""
    """A sentence for the user on how reading is divided among the tasks."""


class BatchSource(ABC):
    """A data source of one form. Its fields are plain or pickled by value, because tasks do not have the caller's
    modules.
    """

    what: ClassVar[str] = "the data"
    """Its name in messages."""
    has_own_batches: ClassVar[bool] = True
    """Whether the source itself, rather than ``batch_size``, determines the batches."""
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
        """Open the source in a task. This is not a collective operation. Raises InvalidInput for unusable data."""

    def leave(self, ctx: Any, share: Share) -> None:
        """Release the tasks that wait for this task to read, after its program has ended. Raises nothing.

        Called whether or not the task has opened the source or read it to its end.
        """
        return  # with most sources, each task reads independently
