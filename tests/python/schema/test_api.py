from __future__ import annotations

from typing import Any

import pytest

from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.api import ClusterPatch, Template
from jupyter_dtf.schema.cluster_request import COMMON, ClusterRequest, check_name, split_common
from jupyter_dtf.schema.socket_messages import Subscribe, Unsubscribe, decode_client_message


@pytest.mark.parametrize("name", ["a", "7", "a-b_c", "x" * 64, "0--0"])
def test_names(name: str) -> None:
    assert check_name(name) == name
    assert ClusterRequest(name=name).name == name


@pytest.mark.parametrize("name", ["A", "-a", "a-", "_", "a b", "a/b", "..", "ä", "x" * 65, "a\n", "a\0"])
def test_names_that_are_none(name: str) -> None:
    for make in (lambda: ClusterRequest(name=name), lambda: Template(name=name, request=ClusterRequest())):
        with pytest.raises(InvalidInput, match="A name must have 1 to 64") as caught:
            make()
        assert caught.value.field == "name"
        assert repr(name) in str(caught.value)


def test_a_request_has_defaults() -> None:
    one, two = ClusterRequest(), ClusterRequest()
    assert (one.kind, one.jobs, one.keep) == ("local", {"worker": 2}, False)
    one.jobs["ps"] = 1
    assert two.jobs == {"worker": 2}


@pytest.mark.parametrize("grace_s", [-1.0, float("inf"), float("nan")])
def test_a_grace_is_a_number_of_seconds(grace_s: float) -> None:
    with pytest.raises(InvalidInput, match=f"got {grace_s}"):
        ClusterRequest(grace_s=grace_s)


@pytest.mark.parametrize("make", [lambda jobs: ClusterRequest(jobs=jobs), lambda jobs: ClusterPatch(jobs=jobs)])
def test_jobs_are_checked(make: Any) -> None:
    with pytest.raises(InvalidInput, match="got worker=0") as caught:
        make({"worker": 0})
    assert caught.value.field == "jobs.worker"


def test_messages_of_a_browser() -> None:
    assert decode_client_message('{"type":"subscribe","run":"r","after":4,"width":300,"x":"time"}') == Subscribe(
        run="r", after=4, width=300, x="time"
    )
    assert decode_client_message(b'{"type":"unsubscribe","run":"r"}') == Unsubscribe(run="r")


@pytest.mark.parametrize(
    "data", ["", "[]", "null", "{}", '{"type":"x"}', '{"type":"subscribe"}', '{"type":"subscribe","run":1}', b"\xff"]
)
def test_messages_that_are_none(data: str | bytes) -> None:
    with pytest.raises(InvalidInput, match=", got "):
        decode_client_message(data)


def test_what_is_given_by_name_is_the_requests_or_its_kinds() -> None:
    assert COMMON == {"keep": "boolean", "grace_s": "number"}
    assert split_common({"keep": True, "hosts": 2, "zone": "a"}) == ({"keep": True}, {"hosts": 2, "zone": "a"})
