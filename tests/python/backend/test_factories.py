"""The contract of every kind of cluster, and the checking of their options."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from jupyter_dtf.backend import clusters, factories
from jupyter_dtf.backend.factories import Kind, check_options
from jupyter_dtf.errors import InvalidInput, NotFound
from jupyter_dtf.schema.api import ClusterRequest
from jupyter_dtf.schema.hosts import HostDesign, TaskPlace, wrong_places

KINDS = list(factories.kinds().values())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
class TestEveryKind:
    def test_its_defaults_are_valid_and_make_at_least_one_host(self, kind: Kind) -> None:
        options = check_options(kind, {})
        assert set(options) == {field.name for field in kind.fields()}
        assert kind.hosts(options, {"worker": 3}) >= 1

    def test_the_hosts_that_it_promises_can_be_drawn(self, kind: Kind) -> None:
        hosts = kind.promised(check_options(kind, {}))
        assert not list(wrong_places({"worker": 1}, hosts, []))
        assert len(hosts) in (0, kind.hosts(check_options(kind, {}), {"worker": 1}))

    def test_its_fields_describe_themselves(self, kind: Kind) -> None:
        for field in kind.fields():
            assert field.title
            assert field.type in factories._TYPES

    def test_it_refuses_an_unknown_option_and_a_wrong_type(self, kind: Kind) -> None:
        with pytest.raises(InvalidInput, match="Received: 'no_such_option'") as caught:
            check_options(kind, {"no_such_option": 1})
        assert caught.value.field == "options.no_such_option"
        for field in kind.fields():
            with pytest.raises(InvalidInput, match=f"is of type {field.type}") as caught:
                check_options(kind, {field.name: object()})
            assert caught.value.field == f"options.{field.name}"

    def test_it_is_available_or_says_what_it_lacks(self, kind: Kind) -> None:
        (info,) = (info for info in factories.describe_kinds() if info.kind == kind.kind)
        assert info.available is not bool(info.lacks)


def test_hosts_that_were_drawn_say_how_many_there_are() -> None:
    kind = factories.find_kind("local")
    drawn = [HostDesign(name="a"), HostDesign(name="b")]
    assert factories.options_of(kind, ClusterRequest(hosts=drawn))["hosts"] == 2
    assert factories.options_of(kind, ClusterRequest(options={"hosts": 3}))["hosts"] == 3
    assert factories.options_of(kind, ClusterRequest(hosts=drawn, options={"hosts": 2}))["hosts"] == 2
    with pytest.raises(InvalidInput, match="The option hosts is as many as were drawn, 2. Received: 3") as refused:
        factories.options_of(kind, ClusterRequest(hosts=drawn, options={"hosts": 3}))
    assert refused.value.field == "options.hosts"


def test_a_preview_has_the_hosts_and_what_is_not_there() -> None:
    found = clusters.preview(ClusterRequest(options={"hosts": 2, "threads_per_host": 1}))
    assert [(host.name, host.cpus) for host in found.hosts] == [("0", 1), ("1", 1)]
    place = TaskPlace(job="worker", index=0, host="a", device="GPU:63")
    drawn = ClusterRequest(hosts=[HostDesign(name="a", gpus=[0] * 64)], tasks=[place])
    (problem,) = clusters.preview(drawn).problems
    assert problem.field == "tasks[0].device"
    assert problem.message.startswith("worker:0 was put on GPU:63 of host a, which has")


def test_describing_kinds_imports_neither_dask_nor_tensorflow() -> None:
    code = (
        "import sys; from jupyter_dtf.backend import factories; factories.describe_kinds();"
        "print({'dask', 'distributed', 'tensorflow', 'keras'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip() == b"set()"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hosts": 0}, "Dask workers is at least 1. Received: 0"),
        ({"hosts": 65}, "Dask workers is at most 64. Received: 65"),
        ({"hosts": True}, "Dask workers is of type integer. Received: True"),
        ({"threads_per_host": -1}, "Threads per Dask worker is at least 0. Received: -1"),
        ({"memory_per_host_bytes": "4GiB"}, "Memory per Dask worker is of type bytes. Received: '4GiB'"),
    ],
)
def test_an_option_out_of_range_states_the_rule_and_the_value(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_options(factories.find_kind("local"), options)
    assert str(caught.value) == message


def test_a_kind_that_is_not_installed_is_not_found() -> None:
    with pytest.raises(NotFound, match="kinds of cluster here are .*local.* Received: 'mainframe'"):
        factories.find_kind("mainframe")


def test_a_preview_shows_the_spec_and_what_is_wrong() -> None:
    shown = clusters.preview(ClusterRequest(jobs={"worker": 2, "ps": 1}))
    assert {job: len(tasks) for job, tasks in shown.cluster_spec.items()} == {"worker": 2, "ps": 1}
    assert list(shown.tf_config) == ["worker:0", "worker:1", "ps:0"]
    assert all(problem.level == "warning" for problem in shown.problems)

    crowded = clusters.preview(ClusterRequest(jobs={"worker": 9}, options={"threads_per_host": 2}))
    assert [(p.field, p.level) for p in crowded.problems] == [("jobs", "warning")]
    assert "9 tasks with 9 threads share the 2" in crowded.problems[0].message

    wrong = clusters.preview(ClusterRequest(kind="local", options={"hosts": 0}))
    assert [(p.field, p.level) for p in wrong.problems] == [("options.hosts", "error")]
