"""Tests that training resumed from a checkpoint equals the same training without an interruption, after every step."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.errors import InvalidInput, NotFound
from jupyter_dtf.schema.checkpoint import Checkpoint
from jupyter_dtf.schema.strategy import AllReduce, InGraph, ParameterServer, Pipeline, Strategy

from ..gang import FakeContext, run_gang
from .cases import digits
from .in_graph.test_in_graph_replicas import devices

EPOCHS, STEPS = 4, 5
PLACED = {
    layer: f"/job:worker/task:{task}/device:CPU:0"
    for task, layers in enumerate((("first", "normal"), ("drop", "second")))
    for layer in layers
}
WITHIN, BETWEEN = 8, 10
"""Steps with checkpoints: the third and the last step of the second epoch."""


def model(seed: int, units: int = 8, optimizer: str = "adam", steps_per_execution: int = 1) -> Any:
    import keras

    keras.utils.set_random_seed(seed)
    layers = [
        keras.Input((6,)),
        keras.layers.Dense(units, activation="relu", name="first"),
        keras.layers.BatchNormalization(name="normal"),
        keras.layers.Dropout(0.3, name="drop"),
        keras.layers.Dense(10, name="second"),
    ]
    made = keras.Sequential(layers)
    chosen = {"adam": lambda: keras.optimizers.Adam(0.01, use_ema=True), "sgd": lambda: keras.optimizers.SGD(0.1)}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(chosen[optimizer](), loss, metrics=["accuracy"], steps_per_execution=steps_per_execution)
    return made


def callbacks() -> list[Any]:
    import keras

    class Recorder(keras.callbacks.Callback):
        """Keeps the weights after every step, changes the learning rate at random, and resets the metrics."""

        def __init__(self) -> None:
            super().__init__()
            self.steps: list[tuple[int, list[Any]]] = []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.steps.append((batch, self.model.get_weights()))
            if batch == WITHIN % STEPS - 1:  # a checkpoint follows
                self.model.reset_metrics()
            self.model.optimizer.learning_rate = 0.01 * (0.5 + random.random() + np.random.rand())

    class Shrinking(keras.callbacks.Callback):
        """A callback that changes a trained weight when an epoch begins, and counts the epochs."""

        def __init__(self) -> None:
            super().__init__()
            self.begun = 0

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.begun += 1
            kernel = self.model.trainable_variables[0]
            kernel.assign(0.8 * kernel)

    plateau = keras.callbacks.ReduceLROnPlateau("loss", patience=1, cooldown=1, min_delta=10.0)
    return [Recorder(), plateau, Shrinking()]


@dataclasses.dataclass
class Done:
    """The results of a training run. ``steps``: for each step, its batch in the epoch, and the weights after it."""

    steps: list[tuple[int, list[Any]]]
    history: dict[str, list[float]]
    epochs: list[tuple[int, int, dict[str, float]]]
    reported: list[float]
    losses: list[float]
    plateau: dict[str, Any]
    rate: float
    begun: list[int]
    saved: list[int]
    removed: list[int]
    notes: list[tuple[str, str, str]]


def train(ctx: FakeContext, name: str, source: Callable[[], Any], seed: int, **arguments: Any) -> Done | None:
    """Do what the client and then this task does. Return the results on the chief, None on the other tasks."""
    from jupyter_dtf.client.fit import prepare

    random.seed(seed)  # one client draws the job's seed for all tasks
    fresh: dict[str, Any] = {field: [] for field in ("points", "notes", "epochs", "progressed", "saved", "removed")}
    run_dir = arguments.pop("run_dir", ctx.run_dir / name)
    here = dataclasses.replace(ctx, shared_dir=ctx.shared_dir / name, run_dir=run_dir, **fresh)
    here = dataclasses.replace(here, attempt=arguments.pop("attempt", 1), stop_at_step=arguments.pop("stop_at", 0))
    here.shared_dir.mkdir(exist_ok=True)
    x, y = digits(70)
    given = {"x": x, "y": y, "batch_size": 16, "epochs": EPOCHS, "callbacks": callbacks(), **arguments}
    job = prepare(source, validation_data=(x[:20], y[:20]), **given)
    function, positional, _ = job.program
    result = function(*positional, here)
    if result is None:
        return None
    job.finish(result)
    recorder, plateau, *shrinking = given["callbacks"]
    return Done(
        steps=recorder.steps,
        history=result.history,
        epochs=here.epochs,
        reported=[step for step, values in here.points if "learning_rate" in values],
        losses=[values["loss"] for _, values in here.points if "learning_rate" in values],
        plateau={name: getattr(plateau, name) for name in ("wait", "cooldown_counter", "best")},
        rate=float(np.asarray(job.model.optimizer.learning_rate)),
        begun=[each.begun for each in shrinking],
        saved=[info.step for info in here.saved],
        removed=here.removed,
        notes=here.notes,
    )


def assert_same(ours: Done | None, theirs: Done | None, done: int, *, same_shares: bool = True) -> None:
    """Assert that ``ours``, which was resumed after ``done`` steps, has the same results as ``theirs``.

    ``same_shares``: whether the chief's share of each batch, whose loss it reports, is the same.
    """
    assert ours is not None and theirs is not None
    assert [batch for batch, _ in ours.steps] == [batch for batch, _ in theirs.steps]
    for step, ((_, mine), (_, other)) in enumerate(zip(ours.steps, theirs.steps, strict=True)):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7, err_msg=f"after step {step + 1}")
    assert list(ours.history) == list(theirs.history)
    for metric, values in theirs.history.items():
        np.testing.assert_allclose(ours.history[metric], values, rtol=1e-5, err_msg=metric)
    assert [epoch[:2] for epoch in ours.epochs] == [epoch[:2] for epoch in theirs.epochs]
    assert ours.reported == theirs.reported[done:]
    if same_shares:
        assert ours.losses == pytest.approx(theirs.losses[done:], rel=1e-3)  # a difference of two running sums
    assert ours.plateau == theirs.plateau
    assert ours.rate == pytest.approx(theirs.rate, rel=1e-6)
    assert ours.begun == theirs.begun


def resumed(strategy: Strategy) -> Callable[[FakeContext], Any]:
    """Return a program that trains with checkpoints, and resumes from two of them with different initial weights."""

    def program(ctx: FakeContext) -> Any:
        if isinstance(strategy, InGraph):
            devices(2)
        policy = Checkpoint(every_steps=4, every_epochs=1, keep=20)
        whole = train(ctx, "whole", lambda: model(3), 5, checkpoint=policy, strategy=strategy)
        parts = {}
        for step in (WITHIN, BETWEEN):
            path = str(ctx.run_dir / "whole" / "checkpoints" / str(step))
            more: dict[str, Any] = {"strategy": strategy, "resume": path, "checkpoint": False}
            parts[step] = train(ctx, f"from {step}", lambda: model(99), 77, **more)
        return whole, parts

    return program


@pytest.mark.parametrize(
    ("strategy", "size", "servers"),
    [
        (AllReduce(), 2, 0),
        pytest.param(InGraph(), 1, 0, marks=pytest.mark.extended),
        pytest.param(ParameterServer(sync=True), 4, 2, marks=pytest.mark.extended),
        pytest.param(ParameterServer(sync=True), 2, 1, marks=pytest.mark.extended),
        pytest.param(ParameterServer(), 3, 2, marks=pytest.mark.extended),
        (Pipeline(PLACED, microbatches=2), 2, 0),
    ],
    ids=["allreduce", "in graph", "two workers, two servers", "one worker, one server", "a worker apart", "pipeline"],
)
def test_a_resumed_training_does_what_an_uninterrupted_one_does(strategy: Strategy, size: int, servers: int) -> None:
    results = run_gang(size, resumed(strategy), servers=servers)
    whole, parts = results[0]
    assert whole.saved == [4, 5, WITHIN, BETWEEN, 12, 15, 16, 20]
    assert len(whole.steps) == EPOCHS * STEPS
    for step, part in parts.items():
        assert_same(part, whole, step)
        assert part.saved == []
        assert ("info", f"Training continues after step {step}") in [note[:2] for note in part.notes]


@pytest.mark.parametrize(
    ("strategy", "size", "servers"),
    [
        (AllReduce(), 2, 0),
        pytest.param(InGraph(), 1, 0, marks=pytest.mark.extended),
        (ParameterServer(sync=True), 3, 1),
        (Pipeline(PLACED, microbatches=2), 2, 0),
    ],
    ids=["allreduce", "in graph", "parameter server", "pipeline"],
)
def test_a_training_is_resumed_in_an_epoch_that_ends_early_with_its_pass(
    strategy: Strategy, size: int, servers: int
) -> None:
    """Each pass has five batches, of which two epochs take three and two."""

    def program(ctx: FakeContext) -> Any:
        if isinstance(strategy, InGraph):
            devices(2)
        more: dict[str, Any] = {"steps_per_epoch": 3, "strategy": strategy}
        policy = Checkpoint(every_steps=1, keep=20)
        whole = train(ctx, "whole", lambda: model(3), 5, checkpoint=policy, **more)
        more["checkpoint"] = False
        kept = ctx.run_dir / "whole" / "checkpoints"
        return whole, {
            step: train(ctx, str(step), lambda: model(99), 77, resume=str(kept / str(step)), **more)
            for step in (3, 4, 5, 9)
        }

    whole, parts = run_gang(size, program, servers=servers)[0]
    assert [step for _, step, _ in whole.epochs] == [3, 5, 8, 10]
    for step, part in parts.items():
        assert_same(part, whole, step)


@pytest.mark.extended
def test_others_go_on_from_it_in_their_own_way() -> None:
    """Training is resumed with several steps per execution, accumulated gradients or short epochs, and after a stop."""

    def program(ctx: FakeContext) -> Any:
        found: dict[str, Any] = {}
        policy = Checkpoint(every_steps=4, keep=20)
        found["plain"] = train(ctx, "plain", lambda: model(3, optimizer="sgd"), 5, checkpoint=policy)
        together = lambda: model(3, steps_per_execution=2)  # noqa: E731
        found["together"] = train(ctx, "together", together, 5, checkpoint=policy)
        within = {"checkpoint": False, "resume": str(ctx.run_dir / "together" / "checkpoints" / "17")}
        found["from together"] = train(ctx, "from together", together, 6, **within)

        passes = AllReduce(backward_passes_per_step=3)
        found["passes"] = train(ctx, "passes", lambda: model(3), 5, checkpoint=policy, strategy=passes)
        within["resume"] = str(ctx.run_dir / "passes" / "checkpoints" / "8")
        found["from passes"] = train(ctx, "from passes", lambda: model(8), 6, strategy=passes, **within)

        seconds = Checkpoint(every_seconds=1e-6, keep=99)
        found["seconds"] = train(ctx, "seconds", lambda: model(3), 5, checkpoint=seconds)

        found["stopped"] = train(ctx, "stopped", lambda: model(3), 5, checkpoint=Checkpoint(), stop_at=7)
        within["resume"] = str(ctx.run_dir / "stopped" / "checkpoints")
        found["from stopped"] = train(ctx, "from stopped", lambda: model(8), 6, **within)
        found["uninterrupted"] = train(ctx, "uninterrupted", lambda: model(3), 5, checkpoint=False)
        few: dict[str, Any] = {"steps_per_epoch": 3}  # of five batches
        found["few"] = train(ctx, "few", lambda: model(3), 5, checkpoint=policy, **few)
        within["resume"] = str(ctx.run_dir / "few" / "checkpoints" / "8")
        found["from few"] = train(ctx, "from few", lambda: model(8), 6, **few, **within)
        each = Checkpoint(keep=20, every_epochs=1)
        found["each"] = train(ctx, "each", lambda: model(3), 5, checkpoint=each, **few)
        within["resume"] = str(ctx.run_dir / "each" / "checkpoints" / "5")
        found["from each"] = train(ctx, "from each", lambda: model(8), 6, **few, **within)
        return found

    found = run_gang(2, program)[0]
    assert found["plain"].saved == [4, 8, 12, 16, 20]
    assert found["plain"].removed == []
    # Executions have two steps, the last one of an epoch has one. Checkpoints are written at the end of an execution.
    assert found["together"].saved == [4, 9, 12, 17, 20]
    assert_same(found["from together"], found["together"], 10)  # reported once per execution
    assert found["passes"].saved == [5, 8, 13, 18, 20]
    assert_same(found["from passes"], found["passes"], 8)
    assert len(found["seconds"].saved) > EPOCHS
    assert found["stopped"].saved[-1] == 8  # all tasks learn of a stop in the next exchange
    assert_same(found["from stopped"], found["uninterrupted"], 8)
    assert found["uninterrupted"].saved == []
    assert found["few"].saved == [4, 8, 10]
    assert_same(found["from few"], found["few"], 8)
    assert_same(found["from each"], found["each"], 5)


def test_a_later_attempt_goes_on_from_the_newest_by_itself() -> None:
    def program(ctx: FakeContext) -> Any:
        place, policy = ctx.run_dir / "one", Checkpoint(every_steps=4)
        whole = train(ctx, "whole", lambda: model(3), 5, checkpoint=False)
        first = train(ctx, "first", lambda: model(3), 5, checkpoint=policy, run_dir=place, epochs=2)
        again = train(ctx, "again", lambda: model(9), 6, checkpoint=policy, run_dir=place, attempt=2)
        fresh = train(ctx, "fresh", lambda: model(3), 5, checkpoint=policy, attempt=2)
        return whole, first, again, fresh

    whole, first, again, fresh = run_gang(2, program)[0]
    assert first.saved == [4, 8, 10]
    assert again.saved == [12, 16, 20]
    assert [epoch for epoch, _, _ in again.epochs] == [2, 3]  # the first attempt has reported the first two
    again.epochs = whole.epochs
    assert len(again.steps) == len(whole.steps)
    assert fresh.saved == [4, 8, 12, 16, 20]
    assert_same(fresh, whole, 0)


def test_a_training_goes_on_from_a_place_that_fsspec_reaches() -> None:
    def program(ctx: FakeContext) -> Any:
        there = f"file://{ctx.run_dir}/there"
        policy = Checkpoint(every_steps=4, keep=2, directory=there)
        whole = train(ctx, "whole", lambda: model(3), 5, checkpoint=policy)
        info = ctx.run_dir / "there" / ctx.run_id
        kept = sorted(path.name for path in info.iterdir())
        more: dict[str, Any] = {"resume": f"{there}/{ctx.run_id}/16", "checkpoint": False}
        return whole, kept, train(ctx, "again", lambda: model(9), 6, **more)

    whole, kept, again = run_gang(1, program)[0]
    assert (whole.saved, whole.removed, kept) == ([4, 8, 12, 16, 20], [4, 8, 12], ["16", "20"])
    assert_same(again, whole, 16)
    assert again.notes[0][2].startswith("From epoch 4, after 1 of its steps: file://")


def test_the_best_is_kept_and_a_name_that_is_none_is_told_of() -> None:
    def program(ctx: FakeContext) -> Any:
        best = Checkpoint(every_epochs=1, keep=1, best="val_loss")
        other = Checkpoint(best="val_nothing", keep=1)
        return [
            train(ctx, str(number), lambda: model(3, optimizer="sgd"), 5, checkpoint=policy)
            for number, policy in enumerate((best, other))
        ]

    best, other = run_gang(1, program)[0]
    losses = best.history["val_loss"]
    there = sorted({int(np.argmin(losses) + 1) * STEPS, EPOCHS * STEPS})
    assert sorted(set(best.saved) - set(best.removed)) == there
    assert best.saved == [5, 10, 15, 20]
    warnings = [note for note in other.notes if note[0] == "warning"]
    assert [title for _, title, _ in warnings] == ["No best checkpoint: there is no metric val_nothing"]
    assert "accuracy, loss, val_accuracy, val_loss" in warnings[0][2]


@pytest.mark.extended
def test_another_number_of_workers_goes_on_with_the_same_batches() -> None:
    """Without state of each task's own (dropout, normalization), one or three workers do what two would have done."""
    kept: dict[str, bytes] = {}

    def plain(seed: int) -> Any:
        import keras

        keras.utils.set_random_seed(seed)
        made = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(10)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        made.compile("adam", loss, metrics=["accuracy"])
        return made

    def two(ctx: FakeContext) -> Any:
        policy = Checkpoint(every_steps=4, keep=20)
        done = train(ctx, "two", lambda: plain(3), 5, checkpoint=policy, callbacks=callbacks()[:2])
        place = ctx.run_dir / "two" / "checkpoints" / "8"
        return done, {path.name: path.read_bytes() for path in place.iterdir()} if ctx.is_chief else None

    whole, kept = run_gang(2, two)[0]

    def one(ctx: FakeContext) -> Any:
        place = Path(ctx.run_dir) / "kept"
        place.mkdir()
        for name, data in kept.items():
            (place / name).write_bytes(data)
        return train(ctx, "one", lambda: plain(9), 6, checkpoint=False, resume=str(place), callbacks=callbacks()[:2])

    assert_same(run_gang(1, one)[0], whole, 8, same_shares=False)
    for rank, done in enumerate(run_gang(3, one_of_three(kept, plain))):
        if rank == 0:
            assert_same(done, whole, 8, same_shares=False)


def one_of_three(kept: dict[str, bytes], source: Callable[[int], Any]) -> Callable[[FakeContext], Any]:
    def program(ctx: FakeContext) -> Any:
        place = Path(ctx.run_dir) / f"kept {ctx.rank}"  # only the chief's is read
        if ctx.is_chief:
            place.mkdir()
            for name, data in kept.items():
                (place / name).write_bytes(data)
        return train(ctx, "three", lambda: source(9), 6, checkpoint=False, resume=str(place), callbacks=callbacks()[:2])

    return program


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "another layer": (
        {"units": 9},
        InvalidInput,
        r"kernel of the model, float32 of shape \(6, 9\) instead of .*\(6, 8\)",
    ),
    "another optimizer": ({"optimizer": "sgd"}, InvalidInput, r"of the optimizer, .* not in the model"),
    "other batches": ({"batch_size": 10}, InvalidInput, r"'batch_size': 10.* instead of .*'batch_size': 16"),
    "fewer examples": ({"few": True}, InvalidInput, r"'examples': 69.* instead of .*'examples': 70"),
    "executions": ({"steps_per_execution": 2}, InvalidInput, r"must divide the number of steps .*, 3, got 2"),
    "nothing there": ({"resume": "/nonexistent"}, NotFound, "There is no complete checkpoint in /nonexistent"),
    "nonsense": ({"spoilt": True}, InvalidInput, "as they were written"),
}


def test_what_does_not_fit_is_refused_by_all_tasks_with_what_differs() -> None:
    def program(ctx: FakeContext) -> Any:
        policy = Checkpoint(every_steps=4, keep=20)
        train(ctx, "whole", lambda: model(3), 5, checkpoint=policy, epochs=2)
        path = str(ctx.run_dir / "whole" / "checkpoints" / str(WITHIN))
        raised = {}
        for name, (change, kind, _) in WRONG.items():
            change = dict(change)
            made = {key: change.pop(key) for key in ("units", "optimizer", "steps_per_execution") if key in change}
            if change.pop("few", False):
                x, y = digits(70)
                change |= {"x": x[:69], "y": y[:69]}
            if change.pop("spoilt", False) and ctx.is_chief:
                data = next(Path(path).glob("variables.data*"))
                data.write_bytes(bytes(data.stat().st_size))
            try:
                arguments = {"resume": path, "checkpoint": False, **change}
                train(ctx, name, partial(model, 3, **made), 5, **arguments)
            except kind as error:
                raised[name] = str(error)
        return raised

    for raised in run_gang(2, program):
        assert list(raised) == list(WRONG)
        for name, (_, _, pattern) in WRONG.items():
            assert re.search(pattern, raised[name]), (name, raised[name])


def own_dataset(ctx: Any) -> Any:
    """Return five batches of this task's own."""
    import tensorflow as tf

    x, y = digits(80)
    return tf.data.Dataset.from_tensor_slices((x, y)).shard(ctx.size, ctx.rank).batch(8, drop_remainder=True)


KINDS: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "known": (lambda made: made, {}),
    "unknown": (lambda made: made.filter(lambda *_: True), {}),
    "endless": (lambda made: made.repeat(), {"steps_per_epoch": 4}),
}


@pytest.mark.extended
def test_datasets_of_each_tasks_own_go_on_in_the_middle_of_an_epoch() -> None:
    def program(ctx: FakeContext) -> Any:
        found = {}
        policy = Checkpoint(every_steps=3, keep=20)
        for kind, (changed, more) in KINDS.items():

            def data(ctx: Any, changed: Any = changed) -> Any:
                return changed(own_dataset(ctx))

            common = {"x": data, "y": None, "batch_size": None, **more}
            found[kind] = train(ctx, kind, lambda: model(3), 5, checkpoint=policy, **common)
            path = str(ctx.run_dir / kind / "checkpoints" / "9")
            found[f"from {kind}"] = train(ctx, f"from {kind}", lambda: model(9), 6, resume=path, **common)
        return found

    found = run_gang(2, program)[0]
    for kind in KINDS:
        assert_same(found[f"from {kind}"], found[kind], 9)


@pytest.mark.extended
def test_the_end_of_an_epoch_of_an_unknown_length_is_no_place_within_it() -> None:
    """The last execution of such an epoch is cut short, but it is not known beforehand that it is the last one."""

    def program(ctx: FakeContext) -> Any:
        def data(ctx: Any) -> Any:
            return KINDS["unknown"][0](own_dataset(ctx))

        common = {"x": data, "y": None, "batch_size": None, "epochs": 2}
        make = partial(model, 3, steps_per_execution=2)
        found = {"whole": train(ctx, "whole", make, 5, checkpoint=Checkpoint(every_steps=1, keep=20), **common)}
        for step in (4, 5):
            path = str(ctx.run_dir / "whole" / "checkpoints" / str(step))
            found[str(step)] = train(ctx, f"from {step}", make, 6, resume=path, checkpoint=False, **common)
        return found

    found = run_gang(2, program)[0]
    whole = found["whole"]
    assert whole.saved == [2, 4, 5, 7, 9, 10]
    for step in (4, 5):
        assert [batch for batch, _ in found[str(step)].steps] == [batch for batch, _ in whole.steps]
        for ours, theirs in zip(found[str(step)].steps, whole.steps, strict=True):
            for mine, other in zip(ours[1], theirs[1], strict=True):
                np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-7)
        for metric, values in whole.history.items():
            assert found[str(step)].history[metric] == pytest.approx(values, rel=1e-5), metric


def test_one_strategy_goes_on_from_a_checkpoint_of_another(tmp_path: Path) -> None:
    """All-reduce, continued in-graph from the middle of an epoch, then by a pipeline, then by a parameter server, gives
    the same results as all-reduce alone.
    """

    def plain(seed: int) -> Any:
        import keras

        keras.utils.set_random_seed(seed)
        first = keras.layers.Dense(8, activation="relu", name="first")
        made = keras.Sequential([keras.Input((6,)), first, keras.layers.Dense(10, name="second")])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        made.compile(keras.optimizers.Adam(0.01, use_ema=True), loss, metrics=["accuracy"])
        return made

    def stage(strategy: Strategy, name: str, **more: Any) -> Callable[[FakeContext], Any]:
        def program(ctx: FakeContext) -> Any:
            if isinstance(strategy, InGraph):
                devices(2)
            told: dict[str, Any] = {
                "strategy": strategy,
                "run_dir": tmp_path / name,
                "checkpoint": Checkpoint(),
                **more,
            }
            return train(ctx, name, lambda: plain(len(name)), 5, **told)

        return program

    def whole(ctx: FakeContext) -> Any:
        done = train(ctx, "whole", lambda: plain(3), 5, checkpoint=False)
        train(ctx, "begun", lambda: plain(3), 5, checkpoint=Checkpoint(), run_dir=tmp_path / "allreduce", stop_at=7)
        return done

    placed = {"first": "/job:worker/task:0/device:CPU:0", "second": "/job:worker/task:1/device:CPU:0"}
    alone = run_gang(2, whole)[0]
    before, found = "allreduce", []
    for name, strategy, size, servers, epochs in (
        ("in graph", InGraph(), 1, 0, 2),
        ("pipeline", Pipeline(placed, microbatches=2), 2, 0, 3),
        ("servers", ParameterServer(sync=True), 2, 1, EPOCHS),
    ):
        resume = str(tmp_path / before / "checkpoints")
        found.append(run_gang(size, stage(strategy, name, resume=resume, epochs=epochs), servers=servers)[0])
        before = name
    assert [done.saved for done in found] == [[10], [15], [20]]
    assert len(alone.steps) == EPOCHS * STEPS
    for step, ((_, ours), (_, theirs)) in enumerate(zip(found[-1].steps, alone.steps, strict=True), 1):
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-6, err_msg=f"after step {step}")
    assert found[-1].history["loss"] == pytest.approx(alone.history["loss"], rel=1e-4)
