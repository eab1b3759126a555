from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from jupyter_dtf.commands import arguments as reading
from jupyter_dtf.errors import InvalidInput, NotFound
from jupyter_dtf.schema.api import ClusterInfo, ClusterState
from jupyter_dtf.schema.design import ClusterDesign, Design
from jupyter_dtf.schema.hosts import HostDesign, TaskPlace
from jupyter_dtf.schema.machines import HostInfo
from jupyter_dtf.schema.run import RunInfo, RunState

RUNS = [
    RunInfo(id="20260102-000000-bbbbbb", name="mlp", cluster="here", jobs={"worker": 1}),
    RunInfo(id="20260101-000000-aaaaaa", name="mlp", cluster="here"),
    RunInfo(id="20260101-000000-cccccc", name="bbbbbb", cluster="here"),
]


def start(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    reading.add_start_arguments(parser)
    return parser.parse_args(words)


def test_jobs() -> None:
    assert reading.parse_jobs("worker=2") == {"worker": 2}
    assert reading.parse_jobs("chief=1, worker=2,ps=1") == {"chief": 1, "worker": 2, "ps": 1}


def test_jobs_without_tasks() -> None:
    with pytest.raises(InvalidInput, match="from 1 to"):
        reading.parse_jobs("worker=0")


@pytest.mark.parametrize("text", ["", "worker", "worker=", "worker=two", "worker=-1", "worker=1,", "ps=1,ps=2"])
def test_jobs_that_are_none(text: str) -> None:
    with pytest.raises(InvalidInput, match="JOB=N"):
        reading.parse_jobs(text)


def test_request() -> None:
    arguments = start("digits", "--jobs", "worker=3", "--option", "hosts=2", "--option", "memory_per_host_bytes=4GiB")
    request = reading.cluster_request(arguments, keep=True, grace_s=0)
    assert (request.name, request.kind, request.jobs, request.keep) == ("digits", "local", {"worker": 3}, True)
    assert request.options == {"hosts": 2, "memory_per_host_bytes": 4 * 2**30}


def test_request_by_default_is_two_workers() -> None:
    request = reading.cluster_request(start(), keep=False, grace_s=5)
    assert (request.name, request.jobs, request.options, request.grace_s) == ("", {"worker": 2}, {}, 5)


def test_request_of_a_design(tmp_path: Path) -> None:
    path = tmp_path / "lab.dtf"
    place = TaskPlace(job="ps", index=0, host="a")
    drawn = ClusterDesign(name="lab", jobs={"ps": 1}, hosts=[HostDesign(name="a")], tasks=[place])
    Design(cluster=drawn).save(path)
    request = reading.cluster_request(start(str(path)), keep=True, grace_s=0)
    assert (request.name, request.jobs, request.hosts, request.tasks) == ("lab", {"ps": 1}, drawn.hosts, [place])
    with pytest.raises(
        InvalidInput, match="A design must be given without --kind, --jobs and --option.*worker=3 hosts=2"
    ):
        reading.cluster_request(start(str(path), "--jobs", "worker=3", "--option", "hosts=2"), keep=True, grace_s=0)
    with pytest.raises(NotFound, match=r"no design 'missing\.dtf'"):
        reading.cluster_request(start("missing.dtf"), keep=True, grace_s=0)


@pytest.mark.parametrize(
    ("words", "field"),
    [(["Bad Name"], "name"), (["--option", "hosts"], "options"), (["--option", "hosts=many"], "options.hosts")],
)
def test_request_that_breaks_a_rule(words: list[str], field: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        reading.cluster_request(start(*words), keep=True, grace_s=0)
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("text", "number"),
    [("20260101-000000-aaaaaa", 1), ("mlp", 0), ("aaaaaa", 1), ("bbbbbb", 2), ("20260101", 1)],
)
def test_find_run(text: str, number: int) -> None:
    assert reading.find_run(text, RUNS) is RUNS[number]


@pytest.mark.parametrize("text", ["", "nope"])
def test_find_run_that_there_is_not(text: str) -> None:
    with pytest.raises(NotFound):
        reading.find_run(text, RUNS)


def test_clusters_table() -> None:
    info = ClusterInfo(
        name="digits",
        kind="local",
        state=ClusterState.RUNNING,
        jobs={"worker": 2, "ps": 1},
        hosts=[HostInfo(name="0", address="tls://a", threads=4, memory_bytes=2**32)],
    )
    run = RunInfo(id="r", name="mlp", cluster="digits", state=RunState.RUNNING)
    head, line = reading.clusters_table([info], [run]).splitlines()
    assert head.split() == ["NAME", "STATE", "KIND", "JOBS", "CORES", "MEMORY", "RUNS", "AGE"]
    assert line.startswith("digits  running  local  2 workers, 1 ps  4      4.0 GiB  1     ")


def test_runs_table() -> None:
    run = RunInfo(
        id="r",
        name="mlp",
        cluster="digits",
        state=RunState.FAILED,
        jobs={"worker": 2},
        started=10.0,
        ended=82.0,
        message="worker:1 failed:\n" + "x" * 40 + " " + "y" * 40,
        headline={"loss": 0.25, "accuracy": 0.9},
    )
    _, line = reading.runs_table([run]).splitlines()
    assert line.endswith("1m 12s  loss 0.25  accuracy 0.9  worker:1 failed: " + "x" * 40 + " …")


def test_nothing_to_list() -> None:
    assert reading.clusters_table([], []) == "There are no clusters."


def test_a_cluster_of_another_version_is_named_under_the_table() -> None:
    info = ClusterInfo(name="other", kind="local", state=ClusterState.RUNNING, incompatible="It speaks protocol 9")
    _, line, said = reading.clusters_table([info], []).splitlines()
    assert "running, incompatible" in line
    assert said == "It speaks protocol 9."


def test_what_should_be_acted_on_is_said_under_the_table() -> None:
    info = ClusterInfo(name="lab", kind="local", state=ClusterState.RUNNING, warnings=["Host b has Keras 2"])
    assert reading.clusters_table([info], []).splitlines()[2:] == ["lab: Host b has Keras 2."]


def test_no_runs_to_list() -> None:
    assert reading.runs_table([]) == "There are no runs."


def test_fields_that_all_kinds_have_are_given_as_options_are(tmp_path: Path) -> None:
    """Any field of ``ClusterRequest`` can be given with ``--option``, and is converted to the type of the field."""
    words = ["--option", "hosts=2", "--option", "grace_s=1.5", "--option", "keep=yes"]
    request = reading.cluster_request(start(*words), keep=False, grace_s=60.0)
    assert (request.grace_s, request.keep, request.options) == (1.5, True, {"hosts": 2})
    path = tmp_path / "lab.dtf"
    Design().save(path)
    request = reading.cluster_request(start(str(path), "--option", "grace_s=2"), keep=False, grace_s=60.0)
    assert request.grace_s == 2.0
    with pytest.raises(InvalidInput, match="The option grace_s must be of type number, got 'soon'"):
        reading.cluster_request(start("--option", "grace_s=soon"), keep=False, grace_s=60.0)
