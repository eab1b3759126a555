"""Arguments of the wrong kind are refused with a sentence, before anything starts."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import jupyter_dtf as dtf
from jupyter_dtf.client.run import check_task
from jupyter_dtf.client.script_run import read
from jupyter_dtf.client.search.search import Search
from jupyter_dtf.errors import InvalidInput, NotFound

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


def test_stopping_a_search_that_has_ended_does_nothing() -> None:
    search = Search.__new__(Search)
    search._done = threading.Event()
    search._done.set()
    search.stop()  # it would fail without trials to stop
