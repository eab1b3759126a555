"""Tests of a ``PyDataset`` that tasks read in turn: each example is read once per epoch, whatever its hooks draw."""

from __future__ import annotations

import math
import multiprocessing
import random
import threading
from itertools import chain, islice
from typing import Any

import keras
import numpy as np
import pytest

from jupyter_dtf.client.sources.loaders import py_dataset
from jupyter_dtf.errors import InvalidInput

from ...gang import run_gang

EXAMPLES, BATCH = 23, 5


class Numbers(keras.utils.PyDataset):
    """A dataset whose examples are their own indices, shuffled at the end of an epoch with the generator ``draw``."""

    def __init__(self, draw: str = "", endless: bool = False, fails_at: int = -1, **options: Any) -> None:
        super().__init__(**options)
        self.index = np.arange(EXAMPLES)
        self.draw = draw
        self.endless = endless
        self.fails_at = fails_at
        self.own = np.random.default_rng(3)
        self.opened: Any = None
        self.epoch = 0

    @property
    def num_batches(self) -> int | None:
        return None if self.endless else math.ceil(EXAMPLES / BATCH)

    def __getitem__(self, number: int) -> Any:
        if number == self.fails_at and self.epoch > 1:
            raise LookupError("no such file")
        self.opened = self.opened or threading.Lock()  # cannot be pickled; created when it is needed
        self.own.random()
        chosen = self.index[number % 5 * BATCH : (number % 5 + 1) * BATCH]
        return {"a": chosen.astype("float32")[:, None]}, chosen

    def on_epoch_end(self) -> None:
        self.epoch += 1
        if self.draw == "numpy":
            np.random.shuffle(self.index)
        if self.draw == "own":
            self.own.shuffle(self.index)


def passes(ctx: Any, source: Any, count: int, seed: int | None = None, **options: Any) -> list[list[list[int]]]:
    """Return this task's examples by pass and batch, as training reads them."""
    from jupyter_dtf.backend.task.fit.sources.base import Reading, Share

    np.random.seed(ctx.rank)
    opened = source.open(ctx, Reading("x", Share(ctx.rank, ctx.size), seed, own_seed=11, **options))
    read = []
    for _ in range(count):
        batches = []
        for x, y in opened.dataset.take(options.get("steps") or 1000):
            np.testing.assert_array_equal(x["a"].numpy()[:, 0], y.numpy())
            batches.append(y.numpy().tolist())
        read.append(batches)
    return read


def of_all(tasks: list[Any]) -> list[list[list[int]]]:
    """Return the batches, put together from the tasks' shares."""
    return [[[*chain(*shares)] for shares in zip(*each, strict=True)] for each in zip(*tasks, strict=True)]


def test_shares_are_the_batches_of_one_process() -> None:
    def program(ctx: Any) -> Any:
        plain = py_dataset(Numbers(), None, None, "x")
        drawn = {
            draw: py_dataset(Numbers(draw, max_queue_size=2, **options), None, None, "x")
            for draw, options in dict[str, Any](numpy={"workers": 3}, own={}).items()
        }
        results = {"plain": passes(ctx, plain, 2), "shuffled": passes(ctx, plain, 3, seed=5)}
        left = [path.name for path in ctx.shared_dir.glob(f"batches/*-{ctx.rank}")]
        results |= {
            **{draw: passes(ctx, source, 4) for draw, source in drawn.items()},
            "again": passes(ctx, drawn["numpy"], 2, first_epoch=2),
            "endless": passes(ctx, py_dataset(Numbers("numpy", endless=True), None, None, "x"), 1, steps=7),
        }
        return results, left

    by_size = {}
    for size in (1, 2, 3):
        by_size[size], left = zip(*run_gang(size, program), strict=True)
        assert not any(left), "what has been taken is removed"
    expected = [list(range(start, min(start + BATCH, EXAMPLES))) for start in range(0, EXAMPLES, BATCH)]
    for size, tasks in by_size.items():
        whole = {name: of_all([task[name] for task in tasks]) for name in tasks[0]}
        assert whole["plain"] == [expected] * 2
        for name in ("shuffled", "numpy", "own"):
            for epoch in whole[name]:
                assert sorted(chain(*epoch)) == list(range(EXAMPLES)), (size, name)
            assert len({str(epoch) for epoch in whole[name]}) == len(whole[name]), "another order in every epoch"
        assert whole["again"] == whole["numpy"][2:], "what goes on with an epoch has its order"
        if size > 1:
            alone = by_size[1][0]
            assert {name: whole[name] for name in ("shuffled", "numpy", "endless")} == {
                name: alone[name] for name in ("shuffled", "numpy", "endless")
            }
            for epoch in whole["plain"]:
                assert [len(shares) for shares in tasks[0]["plain"][0]] == [5 // size] * 4 + [3 // size], epoch


def test_what_goes_on_within_a_pass_reads_what_was_left() -> None:
    """The pass has several epochs, one epoch, or no end. The order is the one that its hooks have drawn by then."""
    forms: list[tuple[dict[str, Any], int | None, int | None, list[tuple[int, int, int]]]] = [
        ({}, 5, 2, [(0, 1, 1), (1, 0, 2), (1, 1, 3), (2, 1, 5), (4, 1, 8)]),
        ({"workers": 3}, None, None, [(0, 3, 3), (1, 5, 10)]),
        ({"endless": True}, None, 3, [(0, 2, 2), (2, 1, 7)]),
    ]

    def program(ctx: Any) -> None:
        from jupyter_dtf.backend.task.fit.sources.base import Reading, Share
        from jupyter_dtf.backend.task.fit.sources.pass_place import pass_place
        from jupyter_dtf.backend.task.fit.sources.py_dataset import _Reader

        for options, seed, steps, places in forms:

            def rest(epochs: int, within: int, count: int) -> list[list[int]]:
                source: Any = py_dataset(Numbers("numpy", **options), None, None, "x")  # noqa: B023
                share = Share(ctx.rank, ctx.size)
                reader = _Reader(source, ctx, Reading("x", share, seed, epochs, own_seed=11, steps=steps))  # noqa: B023
                reader.go_to(pass_place(source.length, epochs, within, steps))  # noqa: B023
                found: list[list[int]] = []
                while len(found) < count:
                    found += [y.tolist() for _, y in islice(reader.shares(), count - len(found))]
                return found

            whole = rest(0, 0, 12)
            for epochs, within, done in places:
                assert rest(epochs, within, 12 - done) == whole[done:], (options, epochs, within)

    run_gang(2, program)


LEAVING = {
    "ends in the middle": ("", [[1], [9], [9]]),
    "goes on with the next pass": ("", [[9, 9], [2, 9], [9, 9]]),
    "never begins": ("numpy", [[], [9, 9], [9, 9]]),
    "ends where it leads": ("own", [[2], [9, 9, 9], [9, 9, 9]]),
}
"""For each case: how passes are shuffled and, by rank, the most batches that the program takes of each pass."""


def test_nobody_waits_for_a_task_that_has_left() -> None:
    def program(ctx: Any) -> Any:
        from jupyter_dtf.backend.task import fed_program

        def main_fun(limits: list[int], ctx: Any) -> list[list[list[int]]]:
            dataset: Any = ctx.fed() if limits else None
            return [[y.numpy().tolist() for _, y in dataset.take(limit)] for limit in limits]

        found, shared = {}, ctx.shared_dir
        for name, (draw, plan) in LEAVING.items():
            ctx.run_id, ctx.shared_dir = name, shared / name  # each is a run of its own
            ctx.shared_dir.mkdir(exist_ok=True)
            source: Any = py_dataset(Numbers(draw, max_queue_size=3), None, None, "feed")
            limits = plan[ctx.rank if ctx.size > 1 else 1]
            found[name] = fed_program.run(fed_program.Fed(source, None, None), main_fun, limits, ctx)
        return found

    (alone,) = run_gang(1, program)
    tasks = run_gang(3, program)
    for name, (draw, plan) in LEAVING.items():
        for rank, task in enumerate(tasks):
            assert [len(each) for each in task[name]] == [min(limit, 5) for limit in plan[rank]], (name, rank)
        if draw == "own":
            continue
        order = (
            alone[name] if draw else [[[*range(at, min(at + BATCH, EXAMPLES))] for at in range(0, EXAMPLES, BATCH)]] * 2
        )
        for rank, task in enumerate(tasks):
            for batches, whole in zip(task[name], order, strict=False):
                shares = [batch[len(batch) * rank // 3 : len(batch) * (rank + 1) // 3] for batch in whole]
                assert batches == shares[: len(batches)], (name, rank)
    for others in zip(*(tasks[rank]["ends where it leads"] for rank in (1, 2)), strict=True):
        seen = [example for batches in others for batch in batches for example in batch]
        assert len(set(seen)) == len(seen), "their copies have the same order"


def test_processes_draw_other_numbers_in_every_epoch_and_task() -> None:
    class Drawn(keras.utils.PyDataset):
        def __init__(self) -> None:
            super().__init__(workers=2, use_multiprocessing=True)
            self.own = np.random.default_rng(3)

        def __len__(self) -> int:
            return 4

        def __getitem__(self, number: int) -> Any:
            return np.array([[np.random.random(), self.own.random(), random.random()]] * 2)

    def program(ctx: Any) -> Any:
        from jupyter_dtf.backend.task.fit.sources.base import Reading, Share

        multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # as tasks are
        drawn = []
        for field in ("x", "validation_data"):
            source: Any = py_dataset(Drawn(), None, None, field)
            opened = source.open(ctx, Reading(field, Share(ctx.rank, ctx.size), own_seed=11))
            drawn += [x.numpy()[0].tolist() for _ in range(3) for (x,) in opened.dataset]
        return drawn

    one, other = run_gang(2, program)
    assert one == other, "shares of the same batches"
    assert len(one) == 24
    for numbers in zip(*one, strict=True):
        assert len(set(numbers)) == 24, "no number is drawn twice"


def test_machines_read_by_themselves_what_needs_no_hooks() -> None:
    class Plain(Numbers):
        on_epoch_end = keras.utils.PyDataset.on_epoch_end

    def program(ctx: Any) -> Any:
        hooked = py_dataset(Numbers("numpy"), None, None, "x")
        with pytest.raises(
            InvalidInput, match=r"own on_epoch_end must be read by synchronous tasks on one.* on 2 machines"
        ):
            passes(ctx, hooked, 1)
        return passes(ctx, py_dataset(Plain(), None, None, "x"), 2, seed=5)

    alone = run_gang(1, lambda ctx: passes(ctx, py_dataset(Plain(), None, None, "x"), 2, seed=5))
    apart = run_gang(3, program, machines=["one", "one", "two"])
    assert of_all(apart) == of_all(alone)


def test_what_fails_is_named_with_its_batch_and_epoch() -> None:
    def program(ctx: Any) -> Any:
        source = py_dataset(Numbers(fails_at=3), None, None, "x")
        if ctx.rank == 0:
            with pytest.raises(
                Exception,
                match=r"(?s)Batch 3 of the PyDataset in x could not be computed in epoch 2: LookupError: no such file",
            ):
                passes(ctx, source, 3)

    run_gang(1, program)


def test_what_cannot_be_read_is_refused() -> None:
    class Holder:
        def __init__(self) -> None:
            self.lock = threading.Lock()

    numbers = Numbers()
    numbers.opened = {"here": Holder()}
    with pytest.raises(InvalidInput, match=r"must be picklable.*attribute opened\['here'\].lock, _thread.lock: "):
        py_dataset(numbers, None, None, "x")
    with pytest.raises(InvalidInput, match="`y` must be contained in a PyDataset's batches"):
        py_dataset(Numbers(), np.zeros(3), None, "x")
    assert py_dataset(np.zeros(3), None, None, "x") is None
