from __future__ import annotations

from .conftest import Api
from .fleet import MemoryFleet


async def test_requests_are_remembered_and_forgotten(fleet: MemoryFleet, api: Api) -> None:
    assert await api("GET", "templates") == []
    await api("PUT", "templates", "two", body={"jobs": {"worker": 2}})
    assert api.response.code == 204
    await api("PUT", "templates", "four", body={"jobs": {"worker": 3}})
    await api("PUT", "templates", "four", body={"jobs": {"worker": 4}, "options": {"hosts": 2}})
    four, two = await api("GET", "templates")
    assert (four["name"], four["request"]["jobs"], four["request"]["options"]) == ("four", {"worker": 4}, {"hosts": 2})
    assert two["name"] == "two"
    await api("DELETE", "templates", "two")
    assert [template["name"] for template in await api("GET", "templates")] == ["four"]
    assert (await api.refused(404, "DELETE", "templates", "two"))["error"] == "NotFound"


async def test_a_template_has_a_name_and_a_request(fleet: MemoryFleet, api: Api) -> None:
    assert (await api.refused(400, "PUT", "templates", "No way", body={}))["field"] == "name"
    assert (await api.refused(400, "PUT", "templates", "a", body={"jobs": {"worker": 0}}))["field"] == "jobs.worker"
    assert await api("GET", "templates") == []
