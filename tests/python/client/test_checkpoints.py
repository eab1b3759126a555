"""Tests of the checkpoints of runs on a real cluster, as users see them, and of runs that resume from them."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from sklearn.datasets import load_digits

import jupyter_dtf as dtf
from jupyter_dtf.client.run import Run
from jupyter_dtf.client.session import Session, session
from jupyter_dtf.schema.events import Note

from ..patience import left_s

pytestmark = pytest.mark.module_directories

X, Y = load_digits(return_X_y=True)
X, Y = X[:300].astype("float32") / 16, Y[:300]
STEPS = 10


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    with dtf.Cluster(jobs={"ps": 1, "worker": 2}) as made:
        yield made
    session().close()


def model(seed: int = 3, units: int = 16) -> Any:
    keras.utils.set_random_seed(seed)
    layers = [keras.Input((64,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dropout(0.2)]
    made = keras.Sequential([*layers, keras.layers.Dense(10)])
    made.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return made


def fit(cluster: dtf.Cluster, trained: Any, **arguments: Any) -> Any:
    return cluster.fit(trained, X, Y, batch_size=30, **{"jobs": {"worker": 2}, "epochs": 3, **arguments})


@pytest.fixture(scope="module")
def whole(cluster: dtf.Cluster) -> tuple[Any, list[Any]]:
    """Return a training run with checkpoints in the middle of epochs, and its weights."""
    policy = dtf.Checkpoint(every_steps=7, every_epochs=1, keep=50)
    run = fit(cluster, model(), checkpoint=policy)
    return run, run.model.get_weights()


def assert_equal(run: Any, weights: list[Any]) -> None:
    for ours, theirs in zip(run.model.get_weights(), weights, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


def test_a_run_tells_its_checkpoints_to_whoever_asks(whole: tuple[Any, list[Any]]) -> None:
    run, _ = whole
    found = run.checkpoints
    assert [info.step for info in found] == [7, 10, 14, 20, 21, 28, 30]
    assert [(info.epoch, info.step_in_epoch) for info in found] == [
        (0, 7), (1, 0), (1, 4), (2, 0), (2, 1), (2, 8), (3, 0)
    ]  # fmt: skip
    assert [info.time for info in found] == sorted(info.time for info in found)
    for info in found:
        path = Path(info.path)
        assert path == Path(run.info.run_dir) / "checkpoints" / str(info.step)
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o600}
        assert 0 < info.bytes <= sum(file.stat().st_size for file in path.iterdir())
    late = Session()
    try:
        seen = Run(run.id, in_session=late)
        seen.wait_for(lambda _: len(seen.checkpoints) == len(found), left_s())
        assert seen.checkpoints == found
        assert seen.info.checkpoint == found[-1]
    finally:
        late.close()


@pytest.mark.parametrize("how", ["a step", "the run", "its id", "a path", "one of them"])
def test_a_run_that_goes_on_ends_where_the_whole_one_did(
    cluster: dtf.Cluster, whole: tuple[Any, list[Any]], how: str
) -> None:
    run, weights = whole
    path = Path(run.info.run_dir) / "checkpoints"
    if how == "a step":
        again = run.resume(14)
        assert again.info.name.startswith(run.info.name)
        assert again.id != run.id
    else:
        resume = {"the run": run, "its id": run.id, "a path": path / "14", "one of them": run.checkpoints[2]}[how]
        again = fit(cluster, model(5), resume=resume, checkpoint=False)
    assert_equal(again, weights)
    assert again.history.history.keys() == run.history.history.keys()
    for name, values in run.history.items():
        assert again.history[name] == pytest.approx(values, rel=1e-5)
    trained = again.metrics.query("metric == 'loss' and task == 'worker:0'")["step"].tolist()
    first = {"a step": 15, "a path": 15, "one of them": 15}.get(how)
    assert trained == ([] if first is None else list(range(first, 3 * STEPS + 1)))


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")
@pytest.mark.parametrize("by_function", [False, True], ids=["a model", "a function"])
def test_a_checkpoint_becomes_a_file_of_keras(
    cluster: dtf.Cluster, whole: tuple[Any, list[Any]], tmp_path: Path, by_function: bool
) -> None:
    run, weights = whole
    if by_function:
        run = fit(cluster, model, checkpoint=dtf.Checkpoint(every_steps=14, keep=9))
        weights = run.model.get_weights()
    assert run.export(tmp_path / "last.keras") == tmp_path / "last.keras"
    last = keras.models.load_model(tmp_path / "last.keras")
    for ours, theirs in zip(last.get_weights(), weights, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
    assert int(last.optimizer.iterations) == 30
    earlier = keras.models.load_model(run.export(tmp_path / "earlier.keras", step=14))
    assert int(earlier.optimizer.iterations) == 14
    served = keras.layers.TFSMLayer(run.export(tmp_path / "saved"), call_endpoint="serve")
    np.testing.assert_allclose(served(X[:5]), last(X[:5]), rtol=1e-5, atol=1e-6)
    with pytest.raises(dtf.InvalidInput, match=r"`path` must end in \.keras or \.h5, or have no suffix"):
        run.export(tmp_path / "model.pb")
    if not by_function:
        for ours, theirs in zip(run.model.get_weights(), weights, strict=True):  # the passed model is unchanged
            np.testing.assert_array_equal(ours, theirs)


def test_more_epochs_go_on_after_the_last(cluster: dtf.Cluster, whole: tuple[Any, list[Any]]) -> None:
    run, _ = whole
    longer = fit(cluster, model(), epochs=4, checkpoint=False)
    again = fit(cluster, model(8), epochs=4, resume=run)
    assert_equal(again, longer.model.get_weights())
    assert [info.step for info in again.checkpoints] == [40]
    assert len(again.history["loss"]) == 4


def test_a_killed_run_goes_on_from_its_last_checkpoint(cluster: dtf.Cluster, whole: tuple[Any, list[Any]]) -> None:
    _, weights = whole

    class Held(keras.callbacks.Callback):
        """A callback that waits after step 17 until its process is killed, but only the first time."""

        def __init__(self, mark: str) -> None:
            super().__init__()
            self.mark = mark

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if int(self.model.optimizer.iterations) == 17 and not os.path.exists(self.mark):
                Path(self.mark).touch()
                print("held")
                signal.pause()

    mark = str(Path(os.environ["JUPYTER_DTF_DATA_DIR"]) / "held")
    policy = dtf.Checkpoint(every_steps=7)
    run = fit(cluster, model(), callbacks=[Held(mark)], checkpoint=policy, restart=False, wait=False)
    run.wait_for(lambda _: os.path.exists(mark) and len(run.checkpoints) == 2, left_s())
    os.kill(run.info.tasks[0].pid, signal.SIGKILL)
    run.wait(left_s())
    with pytest.raises(dtf.RunFailed):
        run.raise_for_state()
    assert [info.step for info in run.checkpoints] == [7, 14]
    assert_equal(run.resume(), weights)


def test_a_stopped_run_goes_on_where_it_stopped(cluster: dtf.Cluster) -> None:
    run = fit(cluster, model(), epochs=2000, wait=False)
    run.wait_for(lambda info: info.progress.done > STEPS, left_s())
    run.stop()
    run.wait(left_s())
    last = run.checkpoints[-1]
    assert last.step == run.metrics.query("metric == 'loss'")["step"].max()
    again = fit(cluster, model(4), resume=run, epochs=last.epoch + 1)
    assert again.checkpoints[-1].step == (last.epoch + 1) * STEPS


def test_in_graph_training_goes_on_too(cluster: dtf.Cluster) -> None:
    policy = dtf.Checkpoint(every_steps=7, keep=9)
    run = fit(cluster, model(), strategy="mirrored", checkpoint=policy)
    assert [info.step for info in run.checkpoints] == [7, 14, 21, 28, 30]
    assert_equal(run.resume(14), run.model.get_weights())


def test_checkpoints_go_where_they_are_wanted(cluster: dtf.Cluster, tmp_path: Path) -> None:
    policy = dtf.Checkpoint(directory=str(tmp_path / "kept"), keep=1)
    run = fit(cluster, model(), checkpoint=policy)
    place = tmp_path / "kept" / run.id
    assert [path.name for path in place.iterdir()] == ["30"]
    assert [info.path for info in run.checkpoints] == [str(place / "30")]
    assert not (Path(run.info.run_dir) / "checkpoints").exists()
    assert_equal(fit(cluster, model(9), resume=place, checkpoint=False), run.model.get_weights())


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(cluster: dtf.Cluster) -> None:
    run = fit(cluster, model(), checkpoint=dtf.Checkpoint(every_steps=14, keep=9))
    (Path(run.checkpoints[-1].path) / "state.pickle").write_bytes(b"")
    again = fit(cluster, model(5), resume=run, checkpoint=False)
    assert_equal(again, run.model.get_weights())
    told = [event.title for _, event in session().hub.events(again.id) if isinstance(event, Note)]
    assert "Training continues from step 28: later checkpoints are damaged" in told


def test_a_fit_without_any_writes_none(cluster: dtf.Cluster) -> None:
    run = fit(cluster, model(), checkpoint=False, epochs=1)
    assert run.checkpoints == []
    assert not (Path(run.info.run_dir) / "checkpoints").exists()
    with pytest.raises(dtf.NotFound, match=f"The run {run.id} has no checkpoint"):
        run.resume()


def test_what_cannot_go_on_is_refused_before_anything_starts(
    cluster: dtf.Cluster, whole: tuple[Any, list[Any]], tmp_path: Path
) -> None:
    run, _ = whole
    with pytest.raises(dtf.NotFound, match=r"`step` must be one of 7, 10, .*got 3"):
        run.resume(3)
    with pytest.raises(dtf.Conflict, match=r"use the object that `dtf\.run\('.*'\)` returns"):
        Run(run.id).resume()
    with pytest.raises(dtf.NotFound, match="`resume` must be a run, its id, or the path of a checkpoint, got 'no-run'"):
        fit(cluster, model(), resume="no-run")
    with pytest.raises(dtf.NotFound, match="which has no complete checkpoint"):
        fit(cluster, model(), resume=tmp_path)
    with pytest.raises(dtf.InvalidInput, match="`resume` must be a run.*got 3"):
        fit(cluster, model(), resume=3)
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(dtf.InvalidInput, match="A checkpoint must be of format 1"):
        fit(cluster, model(), resume=tmp_path)
    with pytest.raises(dtf.RunFailed, match="must be a checkpoint of the same model and optimizer"):
        fit(cluster, model(units=17), resume=run)


# -- programs ------------------------------------------------------------------------------------------------------


def counts(until: int, ctx: Any) -> Any:
    """Add up the steps, continuing from a checkpoint if there is one."""
    import tensorflow as tf

    total = tf.Variable(0.0)
    found = ctx.restore()
    first = found.step + 1 if found else 1
    if found:
        total.assign(found.tree["total"])
    for step in range(first, until + 1):
        total.assign_add(step)
        ctx.checkpoint(step, {"total": total, "rest": [np.arange(step), {"rank": ctx.rank, "words": ("a", None)}]})
    return first, float(total), ctx.restore(), ctx.restore(1), ctx.attempt


def test_a_program_writes_and_reads_its_own(cluster: dtf.Cluster) -> None:
    run = cluster.run(counts, 5, jobs={"worker": 2}, checkpoint=dtf.Checkpoint(keep=2))
    (first, total, newest, oldest, attempt), other = run.result()
    assert (first, total, attempt) == (1, 15.0, 1)
    assert newest.step == 5
    assert newest.tree["total"] == 15.0
    np.testing.assert_array_equal(newest.tree["rest"][0], np.arange(5))
    assert newest.tree["rest"][1] == {"rank": 0, "words": ("a", None)}  # the chief's tree
    assert oldest is None  # no longer kept
    assert other[1] == 15.0
    assert [info.step for info in run.checkpoints] == [4, 5]
    assert not any(name.startswith(".") for name in os.listdir(Path(run.info.run_dir) / "checkpoints"))


def test_a_program_that_was_to_write_none_is_told(cluster: dtf.Cluster) -> None:
    with pytest.raises(dtf.RunFailed, match="checkpoint=False: this run writes no checkpoints"):
        cluster.run(counts, 1, jobs={"worker": 1}, checkpoint=False)


def refused(_: Any, ctx: Any) -> list[str]:
    import threading

    said = []
    for step, tree in ((-1, {}), (1.5, {}), (1, {"lock": threading.Lock()})):
        try:
            ctx.checkpoint(step, tree)
        except ValueError as error:
            said.append(str(error))
    return said


def test_what_cannot_be_written_is_said_at_once(cluster: dtf.Cluster) -> None:
    (said,) = cluster.run(refused, jobs={"worker": 1}).result()
    assert [text.partition(",")[0].partition(".")[0] for text in said] == [
        *["`step` must be a whole number from 0 to 9007199254740992"] * 2,
        "Everything in `tree` except arrays must be picklable",
    ]


def test_a_program_does_not_go_on_with_a_trainings_checkpoint(
    cluster: dtf.Cluster, whole: tuple[Any, list[Any]], tmp_path: Path
) -> None:
    program = cluster.run(counts, 2, jobs={"worker": 1})
    with pytest.raises(dtf.RunFailed, match="`resume` must be a checkpoint of a training"):
        fit(cluster, model(), resume=program)


# -- past runs -----------------------------------------------------------------------------------------------------


def test_a_stored_run_has_its_checkpoints() -> None:
    with dtf.Cluster(jobs={"worker": 2}) as other:
        run = fit(other, model(), epochs=2)
        weights = run.model.get_weights()
        known = run.checkpoints
    late = Session()
    try:
        past = Run(run.id, in_session=late)
        assert past.info.state.is_final
        assert past.checkpoints == known
    finally:
        late.close()
    assert known[-1].step == 2 * STEPS
    with dtf.Cluster(jobs={"worker": 1}) as another:  # a separate cluster with a different number of workers
        again = fit(another, model(7), jobs={"worker": 1}, resume=run.id, epochs=2)
        assert_equal(again, weights)
