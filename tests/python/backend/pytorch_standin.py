"""A substitute for PyTorch's ``DataLoader``, as far as reading is concerned, modeled on ``torch/utils/data`` of PyTorch
2.

The tests do not install PyTorch. Names, attributes and the order of calls are PyTorch's.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np


class Tensor:
    """A tensor that can be converted to an array only after it has been moved to the CPU."""

    def __init__(self, values: Any, on_cpu: bool = False) -> None:
        self.values, self.on_cpu = np.asarray(values), on_cpu

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return Tensor(self.values, on_cpu=True)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        assert self.on_cpu
        return np.array(self.values, dtype)


class IterableDataset:
    """Recognized by its name."""


class SequentialSampler:
    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(SequentialSampler):
    """``generator``: a generator of its own; None: the process's global random numbers (here Python's, in PyTorch its
    own).
    """

    def __init__(self, data_source: Any, generator: Any = None) -> None:
        super().__init__(data_source)
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        generator = self.generator or np.random.default_rng(random.getrandbits(32))
        yield from generator.permutation(len(self.data_source)).tolist()


class BatchSampler:
    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler) / self.batch_size
        return math.floor(count) if self.drop_last else math.ceil(count)


class _Endless:
    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


def default_collate(examples: list[Any]) -> Any:
    """Combine examples into a batch. Tuples become lists, as in PyTorch."""
    if isinstance(examples[0], tuple):
        return [default_collate(list(column)) for column in zip(*examples, strict=True)]
    return Tensor(np.stack(examples))


class DataLoader:
    def __init__(
        self,
        dataset: Any,
        *,
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Any = None,
        drop_last: bool = False,
        generator: Any = None,
    ) -> None:
        self.dataset, self.batch_size, self.num_workers = dataset, batch_size, num_workers
        self.prefetch_factor = 2 if num_workers else None
        if sampler is None:
            kind = RandomSampler(dataset, generator) if shuffle else SequentialSampler(dataset)
            sampler = _Endless() if isinstance(dataset, IterableDataset) else kind
        self.sampler = sampler
        self.batch_sampler = None if batch_size is None else BatchSampler(sampler, batch_size, drop_last)
        self.collate_fn = collate_fn or (default_collate if batch_size is not None else Tensor)

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.dataset, IterableDataset):
            examples = iter(self.dataset)  # type: ignore[call-overload]
            while batch := list(itertools.islice(examples, self.batch_size)):
                yield self.collate_fn(batch)
        elif self.batch_sampler is None:
            for index in self.sampler:
                yield self.collate_fn(self.dataset[index])
        else:
            for indices in self.batch_sampler:
                yield self.collate_fn([self.dataset[index] for index in indices])

    def __len__(self) -> int:
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)


DataLoader.__module__ = "torch.utils.data.dataloader"
