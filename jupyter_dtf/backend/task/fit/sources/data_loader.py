"""Contains a source for a PyTorch ``DataLoader``. The loader's components are sent to the tasks, which take turns
reading, as with a ``PyDataset``.

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
    """The batches of a ``DataLoader``, indexed in the order that its sampler has drawn.

    If ``collates_lists``, ``sampler`` yields lists of indices, like a loader's ``batch_sampler``; otherwise, it yields
    keys of the dataset, and the item of each key is a whole batch. ``order``: the list of all index lists or keys that
    the sampler yielded for the current pass.
    """

    # Kept out of __dict__, because __dict__ is pickled to find changes made by hooks, and a dataset may be large.
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
        """Draw the next pass from the sampler, as ``iter(loader)`` does."""
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
        """Return the part of a copy whose random numbers differ between copies: the loader's dataset, without the
        sampler.
        """
        return dataset.dataset
