from __future__ import annotations

from typing import Any

import pytest

from jupyter_dtf.schema.api import ClusterInfo
from jupyter_dtf.schema.base import convert
from jupyter_dtf.schema.cluster_request import ClusterRequest

from .conftest import Api
from .fleet import MemoryFleet


async def test_a_cluster_is_started_seen_scaled_and_stopped(fleet: MemoryFleet, api: Api, jp_base_url: str) -> None:
    assert await api("GET", "clusters") == []
    started = await api("POST", "clusters", body={"name": "digits", "jobs": {"worker": 3}})
    assert api.response.code == 201
    assert started["state"] == "starting"
    assert convert(started, ClusterInfo) == fleet.cluster("digits")
    assert fleet.asked == [("start", ClusterRequest(name="digits", jobs={"worker": 3}))]
    assert await api("GET", "clusters", "digits") == started
    assert await api("GET", "clusters") == [started]
    scaled = await api("PATCH", "clusters", "digits", body={"jobs": {"worker": 4}})
    assert scaled["jobs"] == {"worker": 4}
    assert await api("POST", "clusters", "digits", "dashboard", body={}) == {
        "url": f"{jp_base_url}jupyter-dtf/api/clusters/digits/dask/status"
    }
    assert await api("DELETE", "clusters", "digits") == ""
    assert api.response.code == 204
    assert await api("GET", "clusters") == []


async def test_how_the_machines_were_is_told_from_a_time_on(fleet: MemoryFleet, api: Api) -> None:
    path = ("clusters", "digits", "machines")
    assert "'digits'" in (await api.refused(404, "GET", *path))["message"]
    await api("POST", "clusters", body={"name": "digits"})
    drawn = {"plot": "CPU", "line": "this cluster", "unit": "cores"}
    told = {"host": "a", "metric": "cpu", **drawn, "time": [1000.0, 1002.0], "value": [0.5, 0.5]}
    assert await api("GET", *path) == [told]
    assert [series["time"] for series in await api("GET", *path, after="1000")] == [[1002.0]]
    error = await api.refused(400, "GET", *path, after="yesterday")
    assert (error["message"], error["field"]) == ("`after` must be a number, got 'yesterday'", "after")
    fleet.lost = True
    assert (await api.refused(503, "GET", *path))["error"] == "ClusterLost"


async def test_a_preview_starts_nothing(fleet: MemoryFleet, api: Api) -> None:
    preview = await api("POST", "clusters", "preview", body={"jobs": {"worker": 2, "ps": 1}})
    assert preview == {
        "cluster_spec": {"worker": ["localhost:0", "localhost:0"], "ps": ["localhost:0"]},
        "tf_config": {},
        "problems": [],
        "hosts": [],
        "script": "",
        "fields": [],
    }
    assert fleet.asked == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"class_path": "os.system"}, "class_path"),
        ({"jobs": {"worker": 0}}, "jobs.worker"),
        ({"jobs": {"worker": "2"}}, "jobs.worker"),
        ({"jobs": {}}, "jobs"),
        ({"name": "No"}, "name"),
        ({"grace_s": -1}, "grace_s"),
        ({"kind": "mars"}, "kind"),
        ({"keep": 1}, "keep"),
        ([], ""),
        (None, ""),
    ],
)
@pytest.mark.parametrize("path", [("clusters",), ("clusters", "preview")])
async def test_a_bad_request_names_its_field(
    fleet: MemoryFleet, api: Api, path: tuple[str, ...], body: Any, field: str
) -> None:
    error = await api.refused(400, "POST", *path, body=body)
    assert error["error"] == "InvalidInput"
    assert error["field"] == field
    assert "got " in error["message"]
    assert fleet.asked == []


async def test_the_name_of_another_cluster_is_a_conflict(fleet: MemoryFleet, api: Api) -> None:
    await api("POST", "clusters", body={"name": "digits"})
    error = await api.refused(409, "POST", "clusters", body={"name": "digits"})
    assert error == {
        "message": "`name` must be unused, but a cluster named 'digits' exists",
        "error": "Conflict",
        "field": "",
    }


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", ("clusters", "nobody"), None),
        ("PATCH", ("clusters", "nobody"), {"jobs": {"worker": 1}}),
        ("DELETE", ("clusters", "nobody"), None),
        ("POST", ("clusters", "nobody", "dashboard"), {}),
    ],
)
async def test_an_unknown_cluster_is_not_found(
    fleet: MemoryFleet, api: Api, method: str, path: tuple[str, ...], body: Any
) -> None:
    error = await api.refused(404, method, *path, body=body)
    assert error["error"] == "NotFound"
    assert "'nobody'" in error["message"]


async def test_a_cluster_that_does_not_answer_is_unavailable(fleet: MemoryFleet, api: Api) -> None:
    await api("POST", "clusters", body={"name": "digits"})
    fleet.lost = True
    assert (await api.refused(503, "POST", "clusters", "digits", "dashboard"))["error"] == "ClusterLost"
    error = await api.refused(503, "PATCH", "clusters", "digits", body={"jobs": {"worker": 1}})
    assert error["error"] == "ClusterLost"


class TestPolicy:
    """The server's settings decide what may be started."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: Any) -> Any:
        jp_server_config.JupyterDTF.allowed_kinds = ["local"]
        jp_server_config.JupyterDTF.kind_defaults = {"local": {"hosts": 3}}
        return jp_server_config

    async def test_other_kinds_are_neither_offered_nor_started(self, fleet: MemoryFleet, api: Api) -> None:
        assert [kind["kind"] for kind in await api("GET", "kinds")] == ["local"]
        error = await api.refused(400, "POST", "clusters", body={"kind": "moon"})
        assert error["message"] == "`kind` must be one of local, got 'moon'"

    async def test_defaults_are_shown_and_filled_in(self, fleet: MemoryFleet, api: Api) -> None:
        (kind,) = await api("GET", "kinds")
        assert kind["fields"][0]["default"] == 3
        await api("POST", "clusters", body={"name": "a"})
        await api("POST", "clusters", body={"name": "b", "options": {"hosts": 1}})
        assert [request.options for _, request in fleet.asked] == [{"hosts": 3}, {"hosts": 1}]  # type: ignore[attr-defined]


async def test_all_kinds_are_offered_with_what_they_lack(fleet: MemoryFleet, api: Api) -> None:
    assert [(kind["kind"], kind["missing"]) for kind in await api("GET", "kinds")] == [
        ("local", ""),
        ("moon", "a rocket"),
    ]
