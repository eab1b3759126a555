"""Tests of how peers of different versions understand each other, and of who refuses unknown fields."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from jupyter_dtf.errors import InvalidInput, Unavailable
from jupyter_dtf.schema import api, protocol, socket_messages
from jupyter_dtf.schema.base import convert, convert_request, to_plain, with_unknown, without_defaults
from jupyter_dtf.schema.checkpoint import Checkpoint
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.schema.notify import Notify
from jupyter_dtf.schema.protocol import Speech
from jupyter_dtf.schema.restart import Restart
from jupyter_dtf.schema.run import RunInfo, RunRequest, RunState, TaskInfo, TaskState, read_run
from jupyter_dtf.schema.search_trial import TrialInfo


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
    assert "The cluster demo (jupyter_dtf 9.1.0) speaks protocols 4 to 5, but this version of jupyter_dtf" in newer
    assert ") speaks 2 to 3: use jupyter_dtf >= 9.1.0 here, or stop the cluster with `jupyter dtf stop demo`" in newer
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


def older(kind: type[Any], without: str) -> type[Any]:
    """Return a strict struct as in a version that did not know one of its fields."""

    def default(name: str) -> Any:
        return msgspec.field(default_factory=lambda: getattr(kind(), name))

    known = [field for field in msgspec.structs.fields(kind) if field.name != without]
    fields = [(field.name, field.type, default(field.name)) for field in known]
    return msgspec.defstruct("Older", fields, forbid_unknown_fields=True, kw_only=True)


@pytest.mark.parametrize("kind", [RunRequest, ClusterRequest, Checkpoint, Restart, Notify])
def test_an_older_peer_refuses_only_new_options_that_are_used(kind: type[Any]) -> None:
    for field in msgspec.structs.fields(kind):
        read = convert(without_defaults(kind()), older(kind, field.name))
        assert all(getattr(read, name) == getattr(kind(), name) for name in read.__struct_fields__)
    raw = msgspec.json.decode(msgspec.json.encode(kind()))
    assert without_defaults(convert(raw, kind)) == {}  # also for values that have been read


def test_what_is_left_out_has_its_default_and_nothing_else_is_left_out() -> None:
    request = RunRequest(
        name="r",
        jobs={"worker": 2},
        gpus_per_task=0,
        restart=Restart(min_workers=1),
        kind="fit",
        checkpoint=False,
        parameters={"rate": 0.0, "none": None, "list": [{"a": ()}]},
        trial=TrialInfo(search="s", name="n", number=0),
    )
    plain = without_defaults(request)
    assert plain["restart"] == {"min_workers": 1}
    assert (plain["gpus_per_task"], plain["checkpoint"]) == (0, False)
    assert plain["trial"] == {"search": "s", "name": "n", "number": 0}
    assert set(plain) == {"name", "jobs", "gpus_per_task", "restart", "kind", "checkpoint", "parameters", "trial"}
    assert convert(msgspec.msgpack.decode(msgspec.msgpack.encode(plain)), RunRequest) == msgspec.msgpack.decode(
        msgspec.msgpack.encode(request), type=RunRequest
    )
    asked = socket_messages.Subscribe(run="r")
    assert without_defaults(asked) == {"type": "subscribe", "run": "r"}  # with its tag


@pytest.mark.parametrize(
    ("raw", "error", "message"),
    [
        ({"newer": 1}, Unavailable, r"The cluster c \(jupyter_dtf \d.* another version: .*field `newer`, for `newer`"),
        ({"restart": {"newer": 1}}, Unavailable, "field `newer`, for `restart.newer`"),
        ({"places": "all"}, Unavailable, "Expected `int`, got `str`.* for `places`"),
        ({"stop_grace_s": -1}, InvalidInput, "`stop_grace_s` must be a number of seconds >= 0, got -1"),
    ],
)
def test_a_request_of_another_version_is_refused_in_a_sentence(raw: Any, error: type[Any], message: str) -> None:
    with pytest.raises(error, match=message):
        convert_request(raw, RunRequest, "The cluster c")


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
