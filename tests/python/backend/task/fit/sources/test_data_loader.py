"""Tests of a PyTorch ``DataLoader`` (a stand-in) that tasks read in turn: they get the batches of one process."""

from __future__ import annotations

import threading
from itertools import chain, islice
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.backend.task.fit.sources.data_loader import DataLoaderSource
from jupyter_dtf.client.sources.loaders import data_loader
from jupyter_dtf.errors import InvalidInput

from ....pytorch_standin import DataLoader, IterableDataset, SequentialSampler
from ...gang import run_gang

EXAMPLES, BATCH = 23, 5


class Numbers:
    """A dataset whose examples are their own indices. With ``at_once``, many of them can be requested in one call."""

    def __init__(self, at_once: bool = False) -> None:
        self.asked: list[int] = []
        if at_once:
            self.__getitems__ = lambda indices: [self[index] for index in indices]

    def __len__(self) -> int:
        return EXAMPLES

    def __getitem__(self, index: Any) -> Any:
        return np.asarray([index], "float32"), np.asarray(index)


def loader(kind: str) -> DataLoader:
    """Return a loader of this kind, which is the same in every call."""
    own = np.random.default_rng(4)
    kinds: dict[str, dict[str, Any]] = {
        "in order": {"batch_size": BATCH},
        "dropped": {"batch_size": BATCH, "drop_last": True},
        "shuffled": {"batch_size": BATCH, "shuffle": True, "generator": own},
        "common": {"batch_size": BATCH, "shuffle": True},
    }
    return DataLoader(Numbers(), **kinds[kind])


def passes(ctx: Any, source: Any, count: int, **options: Any) -> list[list[list[int]]]:
    """Return this task's examples by pass and batch, as training reads them. Keras's ``shuffle`` has no effect."""
    from jupyter_dtf.backend.task.fit.sources.base import Reading, Share

    opened = source.open(ctx, Reading("x", Share(ctx.rank, ctx.size), seed=5, own_seed=11, **options))
    read = []
    for _ in range(count):
        batches = []
        for x, y in opened.dataset:
            np.testing.assert_array_equal(x.numpy()[:, 0], y.numpy())
            batches.append(y.numpy().tolist())
        read.append(batches)
    return read


def of_all(tasks: list[Any]) -> list[list[list[int]]]:
    """Return the batches, put together from the tasks' shares."""
    return [[[*chain(*shares)] for shares in zip(*each, strict=True)] for each in zip(*tasks, strict=True)]


@pytest.mark.parametrize("size", [1, 3])
def test_shares_are_the_batches_that_the_loader_gives(size: int) -> None:
    """The orders are those that its own generator draws, after one draw for the batches that Keras inspects first."""

    def program(ctx: Any) -> Any:
        def source(kind: str) -> Any:
            return data_loader(loader(kind), None, None, "x")

        return {
            **{kind: passes(ctx, source(kind), 3) for kind in ("in order", "dropped", "shuffled")},
            "common": passes(ctx, source("common"), 3),
            "later": passes(ctx, source("shuffled"), 1, first_epoch=2),
            "halves": passes(ctx, source("shuffled"), 2, steps=2),
        }

    tasks = run_gang(size, program)
    found = {name: of_all([task[name] for task in tasks]) for name in tasks[0]}
    for kind in ("in order", "dropped", "shuffled"):
        plain = loader(kind)
        next(iter(plain))  # as Keras inspects it
        expected = [[np.asarray(y.cpu()).tolist() for _, y in plain] for _ in range(3)]
        assert found[kind] == expected, kind
    assert len({str(each) for each in found["shuffled"]}) == 3
    for each in found["common"]:
        assert sorted(chain(*each)) == list(range(EXAMPLES)), "what tasks draw for themselves is the same"
    assert found["later"] == found["shuffled"][2:]
    assert found["halves"] == found["shuffled"][:2], "an order is of a pass, whatever its epochs are"


def test_a_dataset_may_be_asked_for_all_examples_or_for_a_batch() -> None:
    def first(made: Any) -> Any:
        source = data_loader(made, None, None, "x")
        assert isinstance(source, DataLoaderSource)
        assert source.length == len(made)
        return source.copy()[1]

    x, _ = first(DataLoader(Numbers(at_once=True), batch_size=BATCH))
    assert np.asarray(x.cpu())[:, 0].tolist() == [5, 6, 7, 8, 9]

    class Batches(SequentialSampler):
        def __iter__(self) -> Any:
            return iter([slice(0, 3), slice(3, 6)])

        def __len__(self) -> int:
            return 2

    rows = np.arange(6.0)[:, None]
    batch = first(DataLoader(rows, batch_size=None, sampler=Batches(rows)))
    assert np.asarray(batch.cpu())[:, 0].tolist() == [3, 4, 5]


def test_what_cannot_be_used_is_named() -> None:
    made = loader("in order")
    made.dataset.lock = threading.Lock()
    with pytest.raises(InvalidInput, match=r"DataLoader must be picklable.*attribute dataset\.lock, _thread\.lock"):
        data_loader(made, None, None, "x")
    with pytest.raises(InvalidInput, match="`y` must be contained in a DataLoader's batches, not passed separately"):
        data_loader(loader("in order"), np.arange(3), None, "x")
    with pytest.raises(InvalidInput, match="must have at least one batch, got one whose sampler yields none"):
        data_loader(DataLoader([], batch_size=2), None, None, "x")


class Stream(IterableDataset):
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Any:
        return ((np.asarray([n], "float32"), np.asarray(n)) for n in range(self.count))


def test_an_iterable_dataset_is_read_here_anew_for_each_pass() -> None:
    source: Any = data_loader(DataLoader(Stream(7), batch_size=3), None, None, "x")
    assert "IterableDataset" in source.why
    begun = source.feed._passes.begin(2, in_parts=False, count=None)
    batches = [[leaf.tolist() for leaf in batch.leaves] for batch in islice(begun, 5)]
    assert [y for _, y in batches] == [[0, 1, 2], [3, 4, 5], [6]]
    with pytest.raises(InvalidInput, match="must have at least one batch, got one that yields none"):
        data_loader(DataLoader(Stream(0), batch_size=3), None, None, "x")
