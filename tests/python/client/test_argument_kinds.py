"""Arguments of the wrong kind are refused with an error message before anything starts."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.task.fit.job import Arrays
from jupyter_dtf.client import keras_settings
from jupyter_dtf.client.fit import prepare
from jupyter_dtf.client.fit_arguments import check_count
from jupyter_dtf.client.fit_data import validation_of
from jupyter_dtf.client.fit_run import FitRun
from jupyter_dtf.client.forecast_settings import settings_of
from jupyter_dtf.client.run_words import check_task
from jupyter_dtf.client.script_run import read
from jupyter_dtf.client.search.search import Search
from jupyter_dtf.client.search.space import as_space
from jupyter_dtf.client.search.study import as_objectives, as_pruner, as_sampler, check_seed, open_study
from jupyter_dtf.client.search.trial_runs import Places
from jupyter_dtf.errors import Conflict, InvalidInput, NotFound, Unavailable
from jupyter_dtf.schema.cluster import as_jobs
from jupyter_dtf.schema.run import RunState
from jupyter_dtf.schema.run_options import RunOptions
from jupyter_dtf.schema.trace import check_steps

from .fake_run import FakeRun

API: Any = dtf
FIT: Any = FitRun
"""For calls that their type annotations forbid."""


def a_cluster() -> Any:
    """Return a ``Cluster`` without a cluster process: anything that accesses it fails."""
    return dtf.Cluster.__new__(dtf.Cluster)


def a_run() -> Any:
    return FakeRun().run


@pytest.mark.parametrize("given", ["--epochs 3", None, 3, [1], b"x"])
def test_the_arguments_of_a_script_are_a_list_of_texts(given: Any, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("")
    with pytest.raises(InvalidInput, match=r"`arguments` must be a list of strings, such as \['--epochs', '3'\], got"):
        read(path, given)
    assert read(path, ("--epochs", "3")).arguments == ["--epochs", "3"]


@pytest.mark.parametrize("path", [None, 3, "", "a\0b", b"x.py"])
def test_the_path_of_a_script(path: Any) -> None:
    with pytest.raises(InvalidInput, match="`path` must be a path"):
        read(path)


@pytest.mark.parametrize("given", [3, None, [3], ["192.0.2"], "192.0.2.777", "a b", [""], {"a": 1}])
def test_clients_of_servers_are_addresses(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"`clients` must be a list of addresses of machines, .*, got"):
        a_cluster().servers(clients=given)


def test_a_task_of_the_logs_exists() -> None:
    run = FakeRun()
    run.log("worker:1", "hello")
    assert run.run.logs("worker:1") == run.run.logs("worker", 1) == "hello"
    assert run.run.logs() == "worker:1 | hello"
    for task in (("wrker", 1), ("worker", 9), ("worker:9",), ("worker:1:2",), (3,), ("worker", "x")):
        with pytest.raises(NotFound, match="The task must be one of worker:0, worker:1, the tasks of mlp, got"):
            run.run.logs(*task)
    assert check_task("worker:0", run.run.info) == "worker:0"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"jobs": {"worker": np.int64(1)}}, {"jobs": {"worker": 1}}),
        ({"threads_per_task": np.int32(2)}, {"threads_per_task": 2}),
        ({"gpu_memory": np.float32(0.5)}, {"gpu_memory": 0.5}),
        ({"stop_grace_s": np.float64(2)}, {"stop_grace_s": 2.0}),
        ({"trace_steps": (np.int64(1), 2)}, {"trace_steps": [1, 2]}),
        ({"restart": dtf.Restart(max_restarts=np.int64(2))}, {"restart": dtf.Restart(max_restarts=2)}),
        ({"checkpoint": dtf.Checkpoint(every_steps=np.int64(5))}, {"checkpoint": dtf.Checkpoint(every_steps=5)}),
        ({"notify": dtf.Notify(memory=np.float64(0.5))}, {"notify": dtf.Notify(memory=0.5)}),
    ],
)
def test_numbers_of_numpy_are_options(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    found = RunOptions.among(given)
    assert found == RunOptions.among(wanted)
    msgspec.json.encode(found)


def test_numbers_of_numpy_elsewhere() -> None:
    assert msgspec.json.encode(as_jobs(np.int64(2))) == b'{"worker":2}'
    strategy = dtf.AllReduce(backward_passes_per_step=np.int64(2), clip_norm=np.float32(1))
    assert msgspec.json.encode(strategy) == msgspec.json.encode(
        dtf.AllReduce(backward_passes_per_step=2, clip_norm=1.0)
    )
    assert repr(dtf.PopulationBased(population=np.int64(4))) == repr(dtf.PopulationBased(population=4))
    assert Places.of(np.float64(0.5), np.int64(1)) == Places.of(0.5, 1)
    assert check_count("epochs", np.int64(3), 1) == 3
    assert check_steps((np.int64(1), 3)) == [1, 3]
    assert settings_of("allreduce", np.int64(4)) == settings_of("allreduce", 4)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"jobs": {"worker": "1"}}, r"The number of tasks .* got worker='1'"),
        ({"jobs": {"worker": 1.0}}, r"The number of tasks .* got worker=1.0"),
        ({"jobs": {1: 1}}, "A job's name must be"),
        ({"jobs": 2}, "`jobs` must be a mapping, got 2"),
        ({"stop_grace_s": float("inf")}, "`stop_grace_s` must be a number of seconds >= 0, got inf"),
        ({"stop_grace_s": float("nan")}, "`stop_grace_s` must be a number of seconds >= 0, got nan"),
        ({"environment": {"": "x"}}, "`environment` must not be empty or contain =, got ''"),
        ({"notify": dtf.Notify}, "`notify` must be a dtf.Notify"),
    ],
)
def test_options_of_the_wrong_kind(given: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        RunOptions.among(given)


def test_a_path_is_a_directory_of_checkpoints(tmp_path: Path) -> None:
    assert dtf.Checkpoint(directory=tmp_path) == dtf.Checkpoint(directory=str(tmp_path))  # type: ignore[arg-type]


X, Y = np.zeros((4, 2), np.float32), np.zeros(4, np.float32)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        *(({"class_weight": value}, "`class_weight` must map the numbers") for value in ([1, 2], "x", {"a": 1})),
        *(({"class_weight": {0: value}}, "`class_weight` must map the numbers") for value in ("x", None, np.nan)),
        ({"validation_split": "x"}, "`validation_split` must be a number from 0 to 1, got 'x'"),
        ({"validation_data": "x"}, "`validation_data` must be an array, .*got 'x'"),
        ({"validation_data": [X, Y, Y, Y]}, r"`validation_data` must be \(x, y\), .*, got 4 values"),
        ({"shuffle": "batch"}, "`shuffle` must be True or False .*not supported.*, got 'batch'"),
        ({"callbacks": [FakeRun]}, "`callbacks` must be .* objects, got the class FakeRun"),
    ],
)
def test_arguments_of_a_training(given: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        prepare(lambda: None, X, Y, **given)


@pytest.mark.parametrize("method", ["fit", "predict", "evaluate"])
def test_a_warning_about_keras_limits_names_the_line_of_the_call(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras_settings, "_limit", lambda name: 3)
    steps = {"epochs": 5, "steps_per_epoch": 5} if method == "fit" else {"steps": 5}
    with pytest.warns(UserWarning, match="Limiting") as told, pytest.raises(InvalidInput, match="`x` must be data"):
        getattr(a_cluster(), method)(lambda: None, None, **steps)
    assert {warning.filename for warning in told} == {__file__}


def test_validation_data_may_be_a_list_as_in_keras() -> None:
    found = validation_of([X, Y])
    assert isinstance(found, Arrays)
    np.testing.assert_array_equal(found.y, Y)


def test_stopping_a_search_that_has_ended_does_nothing() -> None:
    search = Search.__new__(Search)
    search._done = threading.Event()
    search._done.set()
    search.stop()  # it would fail if it looked for trials to stop


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda: a_cluster().wait_ready("x"), "`timeout_s` must be a number of seconds, or None, got 'x'"),
        (lambda: a_cluster().machines("x"), "`after` must be a number of seconds since 1970, got 'x'"),
        (lambda: a_cluster().save_design(3), "`path` must be a path, got 3"),
        (lambda: a_cluster().run_script(None), "`path` must be a path, got None"),
        (lambda: API.Cluster(design=3), "`design` must be a path, got 3"),
        (lambda: API.Design.open("a\0b"), "`path` must be a path without NUL"),
        (lambda: API.Design().save(3), "`path` must be a path, got 3"),
        (lambda: API.import_tensorboard(3), "`directory` must be a path, got 3"),
        (lambda: a_run().tensorboard(3), "`directory` must be a path, got 3"),
        (lambda: FIT("run-1", in_session=FakeRun().view).export(3), "`path` must be a path, got 3"),
        (lambda: API.launch("hunt", print, {"a": [1]}), "`cluster` must be a dtf.Cluster, .*, got 'hunt'"),
        (lambda: API.run(print), r"`run_id` must be the id of a run \(cluster.run runs a function\), got <built-in"),
        (lambda: API.run(3), "`run_id` must be the id of a run, got 3"),
        (lambda: API.connect(["x"]), r"`name` must be the name of a cluster, got \['x'\]"),
        (lambda: API.RunWidget(None), "`run` must be a run, .*, got None"),
        (lambda: API.ClusterWidget("hunt"), "`cluster` must be a cluster, .*, got 'hunt'"),
        (lambda: setattr(a_run(), "note", 3), "`note` must be a string .*, got 3"),
        (lambda: setattr(a_run(), "tags", "abc"), "`tags` must be a list of strings, .*, got 'abc'"),
        (lambda: a_run().wait("1"), "`timeout_s` must be a number of seconds, or None, got '1'"),
        (lambda: a_run().result("x"), "`timeout_s` must be a number of seconds, or None, got 'x'"),
    ],
)
def test_arguments_of_the_wrong_kind(ask: Callable[[], Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        ask()


def test_a_wait_that_is_over_says_for_what() -> None:
    run = FakeRun().run
    with pytest.raises(TimeoutError, match="The run run-1 is pending; it has not ended after 0.01 s"):
        run.result(0.01)
    with pytest.raises(TimeoutError, match="the condition does not hold after 0 s"):
        run.wait_for(lambda info: False, 0)


def test_only_a_training_has_a_model() -> None:
    run = FakeRun().run
    for name in ("model", "updates"):
        with pytest.raises(AttributeError, match=f"Only a run of cluster.fit has `{name}`, but mlp .run-1. is of"):
            getattr(run, name)
    with pytest.raises(Conflict, match="Only a run of cluster.fit has a model to export, but mlp"):
        run.export("model.keras")


def test_the_repr_of_a_run_is_one_short_line() -> None:
    fake = FakeRun()
    fake.start()
    fake.end(RunState.FAILED, "worker:0: ValueError: " + "x" * 500 + "\nsecond line")
    shown = repr(fake.run)
    assert "\n" not in shown and shown.startswith("<Run mlp, failed, worker:0: ValueError: xxx")
    assert shown.endswith("x...>") and len(shown) < 250


class Unreadable:
    def __reduce__(self) -> Any:
        return len, (3,)


def test_a_result_that_cannot_be_unpickled_names_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRun()
    monkeypatch.setattr(fake.view, "call", lambda work: pickle.dumps(Unreadable()), raising=False)
    with pytest.raises(Unavailable, match="The result of worker:1 of the run run-1 cannot be unpickled .*: TypeError"):
        fake.run._result_of("worker:1")


@pytest.mark.parametrize("value", [None, 3, [], ["x", 3]])
def test_objectives_are_names(value: Any) -> None:
    with pytest.raises(InvalidInput, match="`objective` must be the name of a metric"):
        as_objectives(value, "minimize")
    with pytest.raises(InvalidInput, match="`direction` must be 'minimize' or 'maximize'"):
        as_objectives("loss", value)


@pytest.mark.parametrize("seed", [-1, "x", 1.5, 2**40, True])
def test_seeds(seed: Any) -> None:
    with pytest.raises(InvalidInput, match="`seed` must be an integer from 0 to "):
        check_seed(seed)
    assert check_seed(np.int64(7)) == 7


@pytest.mark.parametrize(
    ("name", "storage", "why"),
    [
        (3, None, "`study_name` must be a string, got 3"),
        ("x", 3, "`storage` must be the URL of a database, .*, got 3"),
        ("x", "nowhere", "`storage` must be the URL of a database, .*, got 'nowhere': "),
    ],
)
def test_storages(name: Any, storage: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        open_study(name, storage, as_sampler("random", 1), as_pruner(None), ["minimize"])


@pytest.mark.parametrize(
    "given", [(float("nan"), 1), (0, float("inf")), (10**400, 10**401), (0.5, 10**400), range(0, 10**30)]
)
def test_the_bounds_of_a_space_are_finite(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"`space\['x'\]` is invalid: .* must be "):
        as_space({"x": given})
