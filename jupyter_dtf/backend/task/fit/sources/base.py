"""Defines the interface of data sources that consist of batches. Each task takes its share of every batch.

A source is pickled with its job, and is opened in every task. It yields the same data, in the same batches and order,
that one process would read, so that training on the shares gives the same weights as training in one process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Share:
    """A task's share of every batch. The shares are contiguous, and their sizes differ by at most one example."""

    rank: int
    size: int

    def bounds(self, examples: Any) -> tuple[Any, Any]:
        """Return the start and end of the share, given the batch's number of examples: integers, or integer tensors of
        shape ().
        """
        return examples * self.rank // self.size, examples * (self.rank + 1) // self.size


@dataclass(frozen=True)
class Reading:
    """The settings that a task uses to read a source. Only ``share`` differs between the tasks."""

    field: str
    """The argument's name, for messages: ``x`` or ``validation_data``."""
    share: Share
    seed: int | None = None
    """The seed for shuffling the source; None: its order is kept."""
    first_epoch: int = 0
    """The epoch of the first pass."""
    batch_size: int | None = None
    """The number of examples per step over all tasks together, if the source itself has no batches."""
    steps: int | None = None
    """The number of batches per epoch or validation run, if the user has specified it."""
    passes: int = 0
    """The number of passes that training from epoch 0 would have completed before ``first_epoch``."""
    passes_before: int = 0
    """The number of these passes that precede epoch ``began``, at which the resumed training run originally started."""
    within: int = 0
    """The number of batches of the first epoch that have already been trained on, for a source that ``continues`` and
    therefore skips these batches itself.
    """
    passed: int = 0
    """The number of batches in the previous epochs of this training run, if ``steps`` determines the length of
    epochs.
    """
    takes: int = 0
    """If not 0, each skipped batch of the first epoch is replaced with an empty batch."""
    began: int = 0
    """The epoch at which the resumed training run originally began. The run resumes at ``first_epoch``."""
    own_seed: int = 0
    """The seed for sources that do their own shuffling, regardless of ``seed``, and for the caller's code, which must
    draw the same random numbers in all tasks.
    """
    in_step: bool = True
    """Whether all tasks that share the batches read every batch, so that a task never waits forever for another task to
    read.
    """


@dataclass
class Opened:
    """A source that has been opened in a task."""

    dataset: Any
    """A ``tf.data.Dataset`` of this task's shares of the batches, structured as Keras packs them: ``x``, ``(x, y)`` or
    ``(x, y, sample_weight)``. Each iteration is one pass. A share is empty if its batch has too few examples.
    """
    length: int | None
    """The number of batches in a pass; -1: endless; None: unknown. It is the same in every task."""
    smallest: int | None = None
    """The number of examples in the smallest batch; None: unknown."""
    first_batches: Callable[[int], list[Any]] | None = None
    """Returns the first ``count`` global batches. None unless reading them is cheap and does not consume training
    data.
    """
    standing: Callable[[int, int, int | None], Any] | None = None
    """A function of ``(epochs, steps, steps_per_epoch)`` that returns a pair: the dataset in its state after ``epochs``
    epochs of ``steps_per_epoch`` steps (None: a whole pass) and ``steps`` steps of the next epoch; and the number of
    batches of the current pass that earlier epochs have taken. Set if skipping batches of the first pass would not
    restore this state.
    """
    seen: int = 0
    """The number of batches of the current pass that epochs before ``Reading.first_epoch`` have taken."""
    ends: bool = False
    """Whether each iteration of the dataset ends after ``Reading.steps`` batches, and must be read to this end."""
    division: str = ""
    """A sentence that tells the user how reading is divided among the tasks."""


class BatchSource(ABC):
    """A source of batches, for one form of data. Its fields are plain data or are pickled by value, because tasks do
    not have the caller's modules.
    """

    what: ClassVar[str] = "the data"
    """The source's name in messages."""
    has_own_batches: ClassVar[bool] = True
    """Whether the source itself, rather than ``batch_size``, determines the batches."""
    runs_own_code: ClassVar[bool] = True
    """Whether opening the source runs the caller's code, which may configure TensorFlow."""
    is_copied: ClassVar[bool] = False
    """Whether each task reads a copy of the caller's object, so that changes to another copy have no effect."""
    weighs_other_classes: ClassVar[bool] = False
    """Whether classes that ``class_weight`` does not name have the weight 1, as they do in Keras for this form of
    data.
    """
    continues: ClassVar[bool] = False
    """Whether the source can be read only once: each iteration of its dataset continues where the previous iteration
    ended.
    """

    @property
    def batches(self) -> int | None:
        """The number of batches in a pass, if known before the source is opened; -1: endless."""
        return None

    @property
    def examples(self) -> int | None:
        """The number of examples in a pass, if known before the source is opened."""
        return None

    @abstractmethod
    def open(self, ctx: Any, reading: Reading) -> Opened:
        """Open the source in a task. Not a collective. Raises InvalidInput for unusable data."""

    def leave(self, ctx: Any, share: Share) -> None:
        """Release the tasks that wait for this task to read, after this task's program has ended. Never raises.

        Called even if the task has not opened the source or has not read it to its end.
        """
        return  # with most sources, each task reads independently
