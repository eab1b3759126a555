"""Tests of runs that another process resumes, using only what was kept when they were submitted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import keras
import numpy as np
import pytest
from sklearn.datasets import load_digits

import jupyter_dtf as dtf
from jupyter_dtf import cli
from jupyter_dtf.backend.records import submission_files
from jupyter_dtf.client.run import Run
from jupyter_dtf.client.session import session

from ..patience import left_s

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])

X, Y = load_digits(return_X_y=True)
X, Y = X[:300].astype("float32") / 16, Y[:300]

ELSEWHERE = """
import json, sys
import numpy as np
import jupyter_dtf as dtf

run = dtf.run(sys.argv[1])
again = run.resume(14)
np.savez(sys.argv[2] + "/weights.npz", *again.model.get_weights())
run.export(sys.argv[2] + "/seven.keras", step=7)
print(json.dumps({"id": again.id, "loss": again.history["loss"], "kind": type(again).__name__}))
"""


class Scaled(keras.layers.Layer):
    """A layer that is defined only in this module."""

    def build(self, _shape: Any) -> None:
        self.scale = self.add_weight(shape=(), initializer="ones")

    def call(self, inputs: Any) -> Any:
        return inputs * self.scale


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    with dtf.Cluster(jobs={"worker": 2}, name="kept") as made:
        yield made
    session().close()


def digits_model() -> Any:
    keras.utils.set_random_seed(3)
    layers = [keras.Input((64,)), keras.layers.Dense(16, activation="relu"), Scaled(), keras.layers.Dropout(0.2)]
    model = keras.Sequential([*layers, keras.layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


@pytest.fixture(scope="module")
def run(cluster: dtf.Cluster) -> Any:
    model = digits_model()
    policy = dtf.Checkpoint(every_steps=7, keep=9)
    return cluster.fit(model, X, Y, batch_size=30, epochs=2, checkpoint=policy, name="digits")


def steps_in(file: Path) -> int:
    """Return how many steps a saved model has been trained for."""
    return int(keras.models.load_model(file, custom_objects={"Scaled": Scaled}).optimizer.iterations)


def test_another_process_goes_on_with_a_run_and_exports_it(run: Any, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, run.id, str(tmp_path)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=left_s(),
    )
    said = json.loads(done.stdout.splitlines()[-1])
    again = dtf.run(said["id"])
    assert (again.info.resumed_from, again.info.name, said["kind"]) == (run.id, "digits 2", "FitRun")
    assert said["loss"] == pytest.approx(run.history["loss"], rel=1e-5)
    with np.load(tmp_path / "weights.npz") as found:
        for ours, theirs in zip(run.model.get_weights(), found.values(), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
    assert steps_in(tmp_path / "seven.keras") == 7
    files = [submission_files.program_file(Path(each.info.run_dir)) for each in (run, again)]
    assert files[0].samefile(files[1])  # stored only once


def test_the_command_line_goes_on_with_a_run_and_says_where(
    run: Any, cluster: dtf.Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["resume", run.id, "--on", cluster.name, "--step", "14"]) == 0
    again = dtf.run(capsys.readouterr().out.strip())
    assert again.wait(left_s()).status == "succeeded"
    assert [info.step for info in again.checkpoints] == [20]
    assert cli.main(["runs"]) == 0
    assert f"continues {run.id}" in capsys.readouterr().out
    for arguments, refusal in (
        (["--step", "15"], "(7, 14, 20), got 15"),
        (["--on", "none"], "There is no cluster named"),
    ):
        assert cli.main(["resume", run.id, *arguments]) == 1
        assert refusal in capsys.readouterr().err


def test_a_run_that_goes_on_is_gone_on_with_in_its_turn(run: Any) -> None:
    again = dtf.run(run.id).resume(14)
    assert again.info.resumed_from == run.id
    third = dtf.run(again.id).resume(20, cluster=again.info.cluster)
    assert third.info.resumed_from == again.id
    assert third.history["loss"] == pytest.approx(run.history["loss"], rel=1e-5)


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")
def test_what_is_forgotten_or_too_large_is_not_gone_on_with(
    run: Any, cluster: dtf.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission_files, "MOST_BYTES", 64 << 10)  # less than the data, and more than the model
    fit = cluster.fit(run.model, X, Y, batch_size=30, epochs=1)
    large = dtf.run(fit.id)
    with pytest.raises(dtf.Conflict, match=rf"is kept, but not its data.*resume='{large.id}'\)"):
        large.resume()
    assert steps_in(large.export(tmp_path / "large.keras")) == 30
    assert fit.resume().info.resumed_from == fit.id  # this process still has both
    kept = submission_files.program_file(Path(fit.info.run_dir))
    assert kept.exists()
    session().hub.delete(fit.id)
    assert not kept.parent.exists()
    program = cluster.run(lambda _args, _ctx: None)
    with pytest.raises(dtf.Conflict, match="Only training can be resumed, .* a program: start it again"):
        dtf.run(program.id).resume()
    none = cluster.fit(run.model, X, Y, batch_size=30, epochs=1, checkpoint=False)
    assert not (Path(none.info.run_dir) / submission_files.DIRECTORY).exists()
    with pytest.raises(dtf.Conflict, match="cannot be resumed: it ran with checkpoint=False"):
        Run(none.id).resume()


PAST = """
import sys
import numpy as np
import jupyter_dtf as dtf

np.savez(sys.argv[2], *dtf.run(sys.argv[1]).model.get_weights())
"""


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")
def test_a_past_run_gives_its_model_when_its_cluster_is_gone(tmp_path: Path) -> None:
    with dtf.Cluster(jobs={"worker": 1}, name="gone") as gone:
        policy = dtf.Checkpoint(every_epochs=1)
        whole = gone.fit(digits_model(), X, Y, batch_size=30, epochs=2, checkpoint=policy)
        part = gone.fit(digits_model(), X, Y, batch_size=30, epochs=2, checkpoint=dtf.Checkpoint(every_steps=7))
        left = gone.fit(digits_model(), X, Y, batch_size=30, epochs=2, checkpoint=policy, wait=False)
        left.wait(left_s())
        none = gone.fit(digits_model(), X, Y, batch_size=30, epochs=1, checkpoint=False)
        taken = gone.fit(digits_model(), X, Y, batch_size=30, epochs=1, checkpoint=False, wait=False)
        taken.wait(left_s())
    trained = whole.model.get_weights()
    held: Any = dtf.run
    for past in (held(whole.id), left):  # the model passed to `left` has not been updated
        model = past.model
        assert past.model is model and int(model.optimizer.iterations) == 20
        for ours, theirs in zip(model.get_weights(), trained, strict=True):
            assert past is left or np.array_equal(ours, theirs)
    shutil.rmtree(part.checkpoints[-1].path)
    with pytest.warns(UserWarning, match="newest checkpoint, after step 14 of 20"):
        assert int(held(part.id).model.optimizer.iterations) == 14
    with pytest.raises(dtf.Conflict, match="is available only if the run writes checkpoints"):
        held(none.id).model  # noqa: B018
    with pytest.raises(dtf.NotFound, match="has been closed.*has no checkpoint"):
        taken.model  # noqa: B018
    weights = str(tmp_path / "weights.npz")
    subprocess.run([sys.executable, "-c", PAST, whole.id, weights], check=True, timeout=left_s())
    with np.load(weights) as found:
        for ours, theirs in zip(found.values(), trained, strict=True):
            np.testing.assert_array_equal(ours, theirs)


class Counter(keras.callbacks.Callback):
    """A callback with a state that the training changes."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs = 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epochs += 1


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")
def test_a_model_is_never_left_untrained_without_a_word() -> None:
    """If the cluster is closed before a result is fetched, the last checkpoint replaces the result, or an error says
    that the model is not trained.
    """
    models = {name: digits_model() for name in ("whole", "averaged", "called", "part", "none", "stopped")}
    reference = digits_model()
    for model in (models["averaged"], reference):
        model.compile(keras.optimizers.Adam(use_ema=True, ema_momentum=0.5), model.loss)
    before = {name: model.get_weights() for name, model in models.items()}
    options: dict[str, dict[str, Any]] = {"called": {"callbacks": [Counter()]}, "none": {"checkpoint": False}}
    with dtf.Cluster(jobs={"worker": 1}, name="away") as away:
        keras.utils.set_random_seed(5)
        away.fit(reference, X, Y, batch_size=30, epochs=2)
        runs: dict[str, Any] = {}
        for name, model in models.items():
            keras.utils.set_random_seed(5)
            given = {"checkpoint": dtf.Checkpoint(every_steps=7), **options.get(name, {})}
            epochs = 100_000 if name == "stopped" else 2
            runs[name] = run = away.fit(model, X, Y, batch_size=30, epochs=epochs, wait=False, **given)
            if name == "stopped":
                run.wait_for(lambda info: info.progress.done > 0, left_s())
                run.stop(now=True)
            run.wait(left_s())
    shutil.rmtree(runs["part"].checkpoints[-1].path)

    def is_untouched(name: str) -> bool:
        return all(np.array_equal(a, b) for a, b in zip(models[name].get_weights(), before[name], strict=True))

    for name in ("whole", "averaged"):
        assert runs[name].finish() is runs[name]
        assert int(models[name].optimizer.iterations) == 20
        assert models[name].history.history["loss"] == list(runs[name].history["loss"])
        assert runs[name].model is models[name]
    assert not is_untouched("whole")
    for ours, theirs in zip(models["averaged"].get_weights(), reference.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)  # the averages, as at the end of training
    with pytest.warns(UserWarning, match="last checkpoint, after step 20.* is lost: Counter"):
        runs["called"].result()
    assert not is_untouched("called")
    for name, why in (
        ("part", "newest checkpoint was written after step 14 of 20, and `run.model`"),
        ("none", "no checkpoint"),
    ):
        for ask in (runs[name].finish, runs[name].result, runs[name].finish):
            with pytest.raises(dtf.NotFound, match=f"cluster away, which has been closed.*trained weights.*{why}"):
                ask()
        assert is_untouched(name)
    with pytest.warns(UserWarning, match="newest checkpoint, after step 14 of 20"):
        assert runs["part"].model is models["part"]
    assert runs["stopped"].finish().status == "stopped"  # there never was a result
    assert is_untouched("stopped")
