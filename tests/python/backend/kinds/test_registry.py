"""The installed kinds, tested against the contract, and the validation of their options."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from jupyter_dtf import entry_points
from jupyter_dtf.backend.kinds import registry
from jupyter_dtf.backend.kinds.local import LocalKind
from jupyter_dtf.backend.kinds.registry import check_options
from jupyter_dtf.backend.machine import paths
from jupyter_dtf.backend.viewer import starting
from jupyter_dtf.errors import InvalidInput, NotFound, Unavailable
from jupyter_dtf.schema import subprocess_job
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.schema.hosts import HostDesign, TaskPlace
from jupyter_dtf.testing.kinds import KindContract

ELSEWHERE = Path(__file__).with_name("elsewhere")


@pytest.fixture
def nannies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another package with its own kind, installed in this process and in all processes that it starts."""
    monkeypatch.syspath_prepend(str(ELSEWHERE))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ELSEWHERE), os.environ.get("PYTHONPATH", "")])))
    entry_points.points.cache_clear()
    yield
    entry_points.points.cache_clear()
    sys.modules.pop("dask_nannies", None)


@pytest.mark.usefixtures("leave_session")
class TestLocal(KindContract):
    kind = "local"
    options = {"hosts": 2, "threads_per_host": 1}


@pytest.mark.usefixtures("nannies", "leave_session")
class TestAKindOfAnotherPackage(KindContract):
    """The contract for a kind from another package, which fails if any code depends on the name of a kind."""

    kind = "nannies"


@pytest.mark.usefixtures("nannies")
class TestKindsThatCannotBeUsed:
    """Kinds that cannot be used, which must not affect the others."""

    def test_an_entry_point_that_leads_nowhere(self) -> None:
        kinds = {info.kind: info for info in registry.describe_kinds()}
        assert kinds["local"].available
        assert kinds["nannies"].available
        assert not kinds["moved"].available
        assert "dask-nannies provides this kind, which cannot be loaded: AttributeError: " in kinds["moved"].missing
        with pytest.raises(
            Unavailable, match="A cluster of kind moved cannot start here: dask-nannies provides this kind"
        ):
            registry.find_kind("moved")

    def test_a_kind_under_another_name(self) -> None:
        (info,) = (info for info in registry.describe_kinds() if info.kind == "other-name")
        assert "a kind must have the name of its entry point, 'other-name', got 'nannies'" in info.missing


@pytest.mark.parametrize("method", ["missing", "fields"])
def test_a_kind_that_fails_is_shown_with_its_error(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(LocalKind):
        kind = "rack"
        title = "The rack"

    def fail(self: LocalKind) -> None:
        raise NameError("name 'shutil' is not defined")

    monkeypatch.setattr(Failing, method, fail)
    monkeypatch.setattr(registry, "kinds", lambda: {"local": LocalKind(), "rack": Failing()})
    local, rack = registry.describe_kinds()
    assert (local.kind, local.available) == ("local", True)
    assert (rack.available, rack.missing) == (False, "Failing has failed: NameError: name 'shutil' is not defined")
    with pytest.raises(Unavailable, match="A cluster of kind rack cannot start here: Failing has failed: NameError"):
        registry.find_kind("rack")


def test_an_installation_from_before_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry points of a checkout are those of its last installation."""
    gone = EntryPoint("local", "jupyter_dtf.backend.gone:LocalKind", registry.GROUP)
    distribution = entry_points.points(registry.GROUP)["local"].dist
    monkeypatch.setitem(entry_points.points(registry.GROUP), "local", gone._for(distribution))  # type: ignore[attr-defined]
    with pytest.raises(Unavailable, match=r"gone:LocalKind cannot be loaded .* Reinstall the package: pip install"):
        registry.find_kind("local")
    monkeypatch.setattr(entry_points, "entry_points", lambda group: [])
    entry_points.points.cache_clear()
    try:
        with pytest.raises(Unavailable, match="No kind of cluster is installed. Reinstall the package: pip install"):
            registry.find_kind("local")
        with pytest.raises(
            Unavailable, match="has no entry point 'place_design' in jupyter_dtf.subprocess_jobs. Reinstall the package"
        ):
            entry_points.point(subprocess_job.GROUP, subprocess_job.PLACE)
    finally:
        entry_points.points.cache_clear()


def test_a_kind_that_was_installed_just_now_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nannies" not in registry.kinds()
    monkeypatch.syspath_prepend(str(ELSEWHERE))
    try:
        assert registry.find_kind("nannies").title == "Dask workers by their command line"
    finally:
        entry_points.points.cache_clear()
        sys.modules.pop("dask_nannies", None)


def test_hosts_that_were_drawn_say_how_many_there_are() -> None:
    kind = registry.find_kind("local")
    drawn = [HostDesign(name="a"), HostDesign(name="b")]
    assert registry.options_of(kind, ClusterRequest(hosts=drawn))["hosts"] == 2
    assert registry.options_of(kind, ClusterRequest(options={"hosts": 3}))["hosts"] == 3
    assert registry.options_of(kind, ClusterRequest(hosts=drawn, options={"hosts": 2}))["hosts"] == 2
    with pytest.raises(InvalidInput, match="`hosts` must be the number of hosts in the design, 2, got 3") as refused:
        registry.options_of(kind, ClusterRequest(hosts=drawn, options={"hosts": 3}))
    assert refused.value.field == "options.hosts"


def test_a_preview_has_the_hosts_and_what_is_not_there() -> None:
    machine = paths.machine_name()
    (only,) = starting.preview(ClusterRequest(options={"hosts": 1})).hosts
    assert only.name == machine
    found = starting.preview(ClusterRequest(options={"hosts": 2, "threads_per_host": 1}))
    assert [(host.name, host.cpus) for host in found.hosts] == [(f"{machine}-0", 1), (f"{machine}-1", 1)]
    place = TaskPlace(job="worker", index=0, host="a", device="GPU:63")
    drawn = ClusterRequest(hosts=[HostDesign(name="a", gpus=[0] * 64)], tasks=[place])
    (problem,) = starting.preview(drawn).problems
    assert problem.field == "tasks[0].device"
    assert problem.message.startswith("worker:0 was assigned to GPU:63 of host a, which has")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hosts": 0}, "Dask workers must be at least 1, got 0"),
        ({"hosts": 65}, "Dask workers must be at most 64, got 65"),
        ({"hosts": True}, "Dask workers must be an integer, got True"),
        ({"threads_per_host": -1}, "Threads per Dask worker must be at least 0, got -1"),
        ({"memory_per_host_bytes": "4GiB"}, "Memory per Dask worker must be an integer (bytes), got '4GiB'"),
    ],
)
def test_an_option_out_of_range_states_the_rule_and_the_value(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_options(registry.find_kind("local"), options)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("workers", """got 'workers'. The number of tasks of a job is set by jobs={"worker": 2}"""),
        ("num_ps", """got 'num_ps'. The number of tasks of a job is set by jobs={"ps": 2}"""),
        ("host", "got 'host'. Did you mean 'hosts'?"),
        ("colour", "got 'colour'"),
    ],
)
def test_an_option_that_does_not_exist_says_what_was_meant(name: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_options(registry.find_kind("local"), {name: 2})
    assert str(caught.value).endswith(message)


def test_a_form_begins_with_this_machine_and_ends_with_what_cannot_be_used() -> None:
    infos = registry.describe_kinds()
    assert infos[0].kind == "local"
    assert {info.kind for info in infos} == set(registry.kinds())
    there = [info.available for info in infos]
    assert there == sorted(there, reverse=True)


def test_a_kind_that_is_not_installed_is_not_found() -> None:
    with pytest.raises(NotFound, match="The kind of a cluster must be one of .*local.*, got 'mainframe'"):
        registry.find_kind("mainframe")


def test_a_preview_shows_the_spec_and_what_is_wrong() -> None:
    shown = starting.preview(ClusterRequest(jobs={"worker": 2, "ps": 1}))
    assert {job: len(tasks) for job, tasks in shown.cluster_spec.items()} == {"worker": 2, "ps": 1}
    assert list(shown.tf_config) == ["worker:0", "worker:1", "ps:0"]
    assert all(problem.level == "warning" for problem in shown.problems)

    crowded = starting.preview(ClusterRequest(jobs={"worker": 9}, options={"threads_per_host": 2}))
    assert [(p.field, p.level) for p in crowded.problems] == [("jobs", "warning")]
    assert "9 tasks with 9 threads share the 2" in crowded.problems[0].message

    wrong = starting.preview(ClusterRequest(kind="local", options={"hosts": 0}))
    assert [(p.field, p.level) for p in wrong.problems] == [("options.hosts", "error")]
