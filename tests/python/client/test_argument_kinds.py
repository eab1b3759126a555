"""Arguments of the wrong kind are refused with a sentence, before anything starts."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.task.fit.job import Arrays
from jupyter_dtf.client.fit import check_count, prepare
from jupyter_dtf.client.fit_data import validation_of
from jupyter_dtf.client.forecast_settings import settings_of
from jupyter_dtf.client.run import check_task
from jupyter_dtf.client.script_run import read
from jupyter_dtf.client.search.search import Search
from jupyter_dtf.client.search.trial_runs import Places
from jupyter_dtf.errors import InvalidInput, NotFound
from jupyter_dtf.schema.cluster import as_jobs
from jupyter_dtf.schema.run_options import RunOptions
from jupyter_dtf.schema.trace import check_steps

from .fake_run import FakeRun


def no_cluster() -> dtf.Cluster:
    """A cluster that does not exist: whatever asks it anything fails."""
    return dtf.Cluster.__new__(dtf.Cluster)


@pytest.mark.parametrize("given", ["--epochs 3", None, 3, [1], b"x"])
def test_the_arguments_of_a_script_are_a_list_of_texts(given: Any, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("")
    with pytest.raises(InvalidInput, match=r"`arguments` must be a list of texts, such as \['--epochs', '3'\], got"):
        read(path, given)
    assert read(path, ("--epochs", "3")).arguments == ["--epochs", "3"]


@pytest.mark.parametrize("path", [None, 3, "", "a\0b", b"x.py"])
def test_the_path_of_a_script(path: Any) -> None:
    with pytest.raises(InvalidInput, match="`path` must be a path"):
        read(path)


@pytest.mark.parametrize("given", [3, None, [3], ["192.0.2"], "192.0.2.777", "a b", [""], {"a": 1}])
def test_clients_of_servers_are_addresses(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"`clients` must be a list of addresses of machines, .*, got"):
        no_cluster().servers(clients=given)


def test_a_task_of_the_logs_exists() -> None:
    run = FakeRun()
    run.log("worker:1", "hello")
    assert run.run.logs("worker:1") == run.run.logs("worker", 1) == "hello"
    assert run.run.logs() == "worker:1 | hello"
    for task in (("wrker", 1), ("worker", 9), ("worker:9",), ("worker:1:2",), (3,), ("worker", "x")):
        with pytest.raises(NotFound, match="The task must be one of worker:0, worker:1, the tasks of mlp, got"):
            run.run.logs(*task)  # type: ignore[arg-type]
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
    assert msgspec.json.encode(strategy) == msgspec.json.encode(dtf.AllReduce(backward_passes_per_step=2, clip_norm=1.0))
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


def test_validation_data_may_be_a_list_as_in_keras() -> None:
    found = validation_of([X, Y])
    assert isinstance(found, Arrays)
    np.testing.assert_array_equal(found.y, Y)


def test_stopping_a_search_that_has_ended_does_nothing() -> None:
    search = Search.__new__(Search)
    search._done = threading.Event()
    search._done.set()
    search.stop()  # it would fail without trials to stop
