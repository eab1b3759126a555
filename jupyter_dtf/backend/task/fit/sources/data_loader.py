"""A PyTorch ``DataLoader``: its parts travel, and its batches are read in turn as those of a ``PyDataset``.

PyTorch itself is not imported here: a loader is what it has, a dataset, a sampler and a function that collates.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, ClassVar

import keras

from .py_dataset import PyDatasetSource
from .stream import tuples


class LoaderBatches(keras.utils.PyDataset):
    """The batches of a ``DataLoader`` by their numbers, in the order that its sampler has drawn.

    ``sampler`` gives lists of indices if ``collates_lists``, as a loader's ``batch_sampler`` does, and otherwise what
    the dataset is asked for a whole batch. ``order`` is what the sampler gave last.
    """

    # Not in __dict__: what hooks change is found there, by pickling, and a dataset may be large.
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
        """What ``iter(loader)`` does: the sampler draws the next pass."""
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
    """``pickled`` has the arguments of ``LoaderBatches``."""

    what: ClassVar[str] = "the DataLoader"
    weighs_other_classes: ClassVar[bool] = False
    hooks: ClassVar[tuple[str, ...]] = ("begin_pass",)
    is_shuffled: ClassVar[bool] = False
    is_drawn_alike: ClassVar[bool] = True

    def copy(self) -> Any:
        """See ``PyDatasetSource``."""
        return LoaderBatches(**vars(pickle.loads(self.pickled.data)))

    def drawing(self, dataset: Any) -> Any:
        """The sampler draws the same in every copy; what the dataset draws is each copy's own."""
        return dataset.dataset
