"""Tests of datasets that are read pass after pass and sent to tasks, whose part this process plays itself."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from jupyter_dtf.backend.task.fit.sources.base import Reading, Share
from jupyter_dtf.backend.task.fit.sources.fed_dataset import FedDataset
from jupyter_dtf.backend.task.fit.sources.stream_wire import receive
from jupyter_dtf.client import feed_window
from jupyter_dtf.client.fit_data import data_of
from jupyter_dtf.client.sources.fed_datasets import DatasetPasses
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.payload import pack, unpack

from .test_feeding import asking, heard

SPEC = tf.TensorSpec([None, 1], tf.float32), tf.TensorSpec([None], tf.int64)


class Passes:
    """A dataset with four batches per pass, numbered by pass: those of pass 2 are 20, 21, 22 and 23."""

    def __init__(self) -> None:
        self.begun = 0
        self.drawn: list[int] = []

    def __call__(self) -> Iterator[Any]:
        begun, self.begun = self.begun, self.begun + 1
        for number in range(4):
            self.drawn.append(10 * begun + number)
            yield np.full((5, 1), 10 * begun + number), np.arange(5)

    def dataset(self) -> Any:
        return tf.data.Dataset.from_generator(self, output_signature=SPEC)


@pytest.fixture
def started() -> Iterator[Any]:
    sources: list[FedDataset] = []

    def start(dataset: Any, field: str = "x") -> FedDataset:
        source = data_of(dataset, None, None, field)
        assert isinstance(source, FedDataset)
        source.feed.start()
        sources.append(source)
        return source

    yield start
    for source in sources:
        source.feed.close()


def numbers(source: FedDataset, **hello: Any) -> list[Any]:
    """Return the numbers of the received batches, followed by the error at the end, if any."""
    *found, error = heard(source, asking(source, **hello))
    return [number for number, _ in found] + [error] * bool(error)


def test_each_pass_is_another_reading_begun_when_it_is_asked_for(started: Any) -> None:
    passes = Passes()
    source = started(passes.dataset())
    assert heard(source, asking(source, peek=2)) == [(0, 5), (1, 5), ""]
    assert numbers(source) == [0, 1, 2, 3]
    assert passes.begun == 1
    assert numbers(source, again=1) == [10, 11, 12, 13]
    assert numbers(source, again=2) == [20, 21, 22, 23]
    assert passes.begun == 3


def test_tasks_take_their_shares_of_the_same_passes(started: Any) -> None:
    source = started(Passes().dataset())
    first, second = (asking(source, rank=rank, size=2) for rank in range(2))
    assert heard(source, first) == [(n, 2) for n in range(4)] + [""]
    ahead = asking(source, rank=0, size=2, again=1)
    assert heard(source, second) == [(n, 3) for n in range(4)] + [""]
    assert heard(source, ahead) == [(n, 2) for n in range(10, 14)] + [""]
    assert heard(source, asking(source, rank=1, size=2, again=1)) == [(n, 3) for n in range(10, 14)] + [""]


def test_a_validation_of_so_many_steps_begins_a_new_pass_and_reads_no_more(started: Any) -> None:
    passes = Passes()
    source = started(passes.dataset(), "validation_data")
    assert numbers(source, only=3) == [0, 1, 2]
    assert numbers(source, only=3, again=1) == [10, 11, 12]
    assert {10, 11, 12} <= set(passes.drawn) and 20 not in passes.drawn


def test_who_is_started_again_gets_what_is_left_and_then_the_next_pass(started: Any) -> None:
    source = started(Passes().dataset())
    assert numbers(source) == [0, 1, 2, 3]
    with asking(source, again=1) as peer:
        receive(peer)
    assert numbers(source, passes=1, within=2) == [12, 13]
    assert numbers(source, passes=1, again=1) == [20, 21, 22, 23]
    assert numbers(source, passes=0, within=3) == [3]


def test_a_new_process_begins_with_the_pass_that_was_under_way(started: Any) -> None:
    source = started(Passes().dataset())  # without random draws, earlier passes need not be read
    assert numbers(source, passes=3, within=1) == [1, 2, 3]
    assert numbers(source, passes=3, again=1) == [10, 11, 12, 13]


def test_a_training_goes_on_within_a_pass_of_several_epochs(started: Any) -> None:
    source = started(Passes().dataset().apply(tf.data.experimental.assert_cardinality(4)))
    travelled = unpack(pack(source))
    ctx = SimpleNamespace(task="worker:0")
    opened = travelled.open(ctx, Reading("x", Share(0, 1), steps=3, passed=9))  # epochs of 3, 1, 3 steps are done
    assert (opened.seen, opened.length) == (3, 4)
    assert [int(x[0, 0]) for x, _ in opened.dataset.take(1)] == [3]
    assert [int(x[0, 0]) for x, _ in opened.dataset] == [10, 11, 12, 13]
    source = started(Passes().dataset().apply(tf.data.experimental.assert_cardinality(4)))
    opened = source.open(ctx, Reading("x", Share(0, 1), steps=3, passed=9, within=1))  # and so is all of this pass
    assert opened.seen == 3 and [int(x[0, 0]) for x, _ in opened.dataset] == [0, 1, 2, 3]
    unknown = started(Passes().dataset())
    with pytest.raises(InvalidInput, match=r"has a known length.*got 3 and a dataset of an unknown"):
        unknown.open(ctx, Reading("x", Share(0, 1), steps=3, passed=3))


@pytest.mark.parametrize("field", ["x", "validation_data"])
def test_a_shuffled_pass_of_which_nothing_counts_is_begun_anew(started: Any, monkeypatch: Any, field: str) -> None:
    monkeypatch.setattr(feed_window, "BACK", 1)
    monkeypatch.setattr(feed_window, "BACK_BYTES", 0)
    whole = [*range(8)]
    passes = tf.data.Dataset.from_generator(
        lambda: ((np.full((5, 1), number), np.arange(5)) for number in whole), output_signature=SPEC
    )
    source = started(passes.shuffle(8), field)
    for number in (0, 1):  # the first epoch, before any checkpoint, and a later one
        assert sorted(numbers(source, passes=number)) == whole
        with asking(source, passes=number, within=1) as peer:
            assert "shuffle it differently" in receive(peer)[0].error
        notes, both = [], []
        peers = [asking(source, rank=rank, size=2, passes=number) for rank in range(2)]
        for peer in peers:
            with peer:
                told = []
                while (message := receive(peer))[0].batch >= 0:
                    notes += [message[0].note] * bool(message[0].note)
                    told.append(int(source.values(*message)[0][0, 0]))
                both.append(told)
        assert both[0] == both[1] and sorted(both[0]) == whole
        assert len(notes) == (number == 0)
    with asking(source, rank=0, size=2, passes=1) as first:  # the other task has to continue the same reading
        order = int(source.values(*receive(first))[0][0, 0])
        with asking(source, rank=1, size=2, passes=1) as second:
            assert int(source.values(*receive(second))[0][0, 0]) == order


def test_shuffles_draw_as_often_as_keras_makes_iterators() -> None:
    """The third pass is shuffled as in Keras even if nobody has read the first two, with and without a known length."""

    def dataset(length: int | None) -> Any:
        found = tf.data.Dataset.range(6).shuffle(6, seed=3).batch(2)
        return found if length is None else found.apply(tf.data.experimental.assert_cardinality(length))

    for length, iterators in ((3, 5), (None, 3)):
        unread = dataset(length)
        if length is None:
            unread = unread.filter(lambda batch: True)
        passes: Any = DatasetPasses(unread, lambda iterator: iterator, int(unread.cardinality()), draws=True)
        third = [batch.numpy().tolist() for batch in passes.begin(2, in_parts=False, count=None)]
        alike = dataset(length)
        begun = [iter(alike) for _ in range(iterators)]
        assert third == [batch.numpy().tolist() for batch in begun[-1]]
