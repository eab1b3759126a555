"""What peers of different versions make of each other, and who is strict."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema import api, protocol, socket_messages
from jupyter_dtf.schema.base import convert, to_plain, with_unknown
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.schema.protocol import Speech
from jupyter_dtf.schema.run import RunInfo, RunRequest, RunState, TaskInfo, TaskState, read_run


@pytest.fixture(autouse=True)
def speaks_two_to_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "OLDEST", 2)
    monkeypatch.setattr(protocol, "PROTOCOL", 3)


@pytest.mark.parametrize(
    ("oldest", "newest", "meets"), [(0, 0, False), (1, 1, False), (1, 2, True), (3, 9, True), (4, 9, False)]
)
def test_two_that_have_a_protocol_in_common_understand_each_other(oldest: int, newest: int, meets: bool) -> None:
    other = Speech(protocol=newest, oldest=oldest)
    assert protocol.ours().understands(other) is meets
    assert other.understands(protocol.ours()) is meets
    assert (protocol.cluster_refusal("demo", other) == "") is meets
    assert (protocol.viewer_refusal(other) == "") is meets


def test_a_newer_and_an_older_cluster_are_named_with_what_to_do() -> None:
    newer = protocol.cluster_refusal("demo", Speech(protocol=5, oldest=4, release="9.1.0"))
    assert "The cluster demo (jupyter_dtf 9.1.0) speaks protocols 4 to 5, this version of jupyter_dtf" in newer
    assert ") 2 to 3: use jupyter_dtf >= 9.1.0 here, or stop the cluster with `jupyter dtf stop demo`" in newer
    older = protocol.cluster_refusal("demo", Speech())
    assert "speaks protocol 0," in older
    assert "stop it with `jupyter dtf stop demo` and start it again" in older


@pytest.mark.parametrize("raw", [None, "3", {"protocol": "x"}, [], 3])
def test_who_says_nothing_that_can_be_read_is_of_before(raw: object) -> None:
    assert protocol.theirs(raw) == Speech()


def test_peers_are_read_leniently_and_people_strictly() -> None:
    told = to_plain(RunInfo(id="r", name="r", cluster="c", tasks=[TaskInfo(task="worker:0")]))
    told["tasks"][0]["cores"] = 3
    told["attempts"] = [1]
    assert read_run(told) == RunInfo(id="r", name="r", cluster="c", tasks=[TaskInfo(task="worker:0")])
    for asked in (RunRequest, ClusterRequest, socket_messages.Subscribe):
        with pytest.raises(InvalidInput, match="unknown field `attempts`"):
            convert({"attempts": 1}, asked)
    for message in get_args(socket_messages.ServerMessage):
        assert not message.__struct_config__.forbid_unknown_fields
    for message in get_args(socket_messages.ClientMessage):
        assert message.__struct_config__.forbid_unknown_fields


def test_a_state_that_is_new_ends_no_description() -> None:
    told = to_plain(RunInfo(id="r", name="r", cluster="c", tasks=[TaskInfo(task="worker:0")]))
    told["state"] = told["tasks"][0]["state"] = "resting"
    info = read_run(told)
    assert (info.state, info.tasks[0].state) == (RunState.RUNNING, TaskState.RUNNING)
    assert info.message == "resting, a state that this version of jupyter_dtf does not know"
    assert read_run({**told, "ended": 2.0}).state is RunState.STOPPED
    assert api.read_cluster({"name": "c", "kind": "k", "state": "resting"}).state is api.ClusterState.RUNNING


def test_what_is_not_known_stays_where_it_was_when_the_rest_is_written() -> None:
    raw = {"id": "r", "name": "r", "cluster": "c", "new": {"a": b"1"}, "latest": {"loss": 1.0, "gone": 2.0},
           "tasks": [{"task": "worker:0", "cores": 3}]}  # fmt: skip
    info = read_run(raw)
    info.latest = {"loss": 0.5}
    info.tasks = [*info.tasks, TaskInfo(task="worker:1")]
    back = with_unknown(raw, info)
    assert back["new"] == {"a": b"1"}
    assert back["latest"] == {"loss": 0.5}
    assert [task.get("cores") for task in back["tasks"]] == [3, None]
    assert msgspec.convert(back, RunInfo) == info
