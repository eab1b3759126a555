"""A source for a PyTorch ``DataLoader``: its components are sent, and tasks take turns reading, as with a
``PyDataset``.

PyTorch itself is not imported here: only a loader's dataset, sampler and collate function are used.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, ClassVar

import keras

from .py_dataset import PyDatasetSource
from .stream import tuples


class LoaderBatches(keras.utils.PyDataset):
    """The batches of a ``DataLoader`` by index, in the order drawn by its sampler.

    If ``collates_lists``, ``sampler`` yields lists of indices, like a loader's ``batch_sampler``; otherwise, it yields
    keys of the dataset, each for a whole batch. ``order`` is the sampler's last result.
    """

    # Kept out of __dict__, which is pickled to find changes made by hooks: a dataset may be large.
    __slots__ = ("collate", "dataset", "sampler")

    def __init__(
        self, dataset: Any, sampler: Any, collate: Any, order: list[Any], *, collates_lists: bool, **options: Any
    ) -> None:
        super().__init__(**options)
        self.dataset = dataset
        self.sampler = sampler
        self.collate = collate
        self.order = order  # type: ignore[misc]  # in the __dict__ of PyDataset
        self.collates_lists = collates_lists  # type: ignore[misc]

    @property
    def num_batches(self) -> int:
        return len(self.order)

    def begin_pass(self) -> None:
        """Do what ``iter(loader)`` does: draw the next pass from the sampler."""
        self.order = list(self.sampler)  # type: ignore[misc]

    def __getitem__(self, number: int) -> Any:
        index, dataset = self.order[number], self.dataset
        if not self.collates_lists:
            examples = dataset[index]
        elif getattr(dataset, "__getitems__", None):
            examples = dataset.__getitems__(index)
        else:
            examples = [dataset[each] for each in index]
        return tuples(self.collate(examples))


@dataclass
class DataLoaderSource(PyDatasetSource):
    """A source for a ``DataLoader``. ``pickled`` contains the arguments of ``LoaderBatches``."""

    what: ClassVar[str] = "the DataLoader"
    weighs_other_classes: ClassVar[bool] = False
    hooks: ClassVar[tuple[str, ...]] = ("begin_pass",)
    is_shuffled: ClassVar[bool] = False
    is_drawn_alike: ClassVar[bool] = True

    def copy(self) -> Any:
        """See ``PyDatasetSource``."""
        return LoaderBatches(**vars(pickle.loads(self.pickled.data)))

    def drawing(self, dataset: Any) -> Any:
        """Return the part whose random numbers differ between copies: the dataset, but not the sampler."""
        return dataset.dataset
