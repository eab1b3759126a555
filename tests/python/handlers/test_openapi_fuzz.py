"""All routes of openapi.json, fuzzed with schemathesis: the server never fails, every answer conforms to the file, and
no design, name or number that breaks a rule of the file is accepted."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from jupyter_dtf.backend.machine import subprocess_runner
from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.handlers.openapi import generate
from jupyter_dtf.handlers.routes import PREFIX

from .conftest import Api
from .fleet import MemoryFleet
from .test_fuzz import done_here
from .test_runs import feed

Send = Callable[[bool], Awaitable[tuple[int, list[str]]]]
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
EXAMPLES = 10
EXAMPLES_OF_DESIGNS = 3
"""A design is large, so schemathesis may take seconds to make one that breaks a rule."""


def document() -> dict[str, Any]:
    """Return the OpenAPI document, changed so that names in paths often exist."""
    described: dict[str, Any] = json.loads(json.dumps(generate()))
    known = {"name": "there", "run_id": "r1", "search_id": "s1", "path": "status"}
    for item in described["paths"].values():
        for operation in item.values():
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "path":
                    parameter["schema"] = {"anyOf": [{"const": known[parameter["name"]]}, parameter["schema"]]}
    return described


def fuzz(base_url: str, token: str, designs: bool) -> tuple[int, list[str]]:
    """Send requests to all routes. Return the number of requests, and what was wrong with the answers."""
    schema: Any = schemathesis.openapi.from_dict(document())
    modes: Any = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    made = 0
    wrong = []
    for found in schema.get_all_operations():
        operation = found.ok()
        is_design = "/designs/" in operation.path
        if operation.path == f"{PREFIX}/events" or (is_design and not designs):
            continue  # the WebSocket, or a design that is not to be sent
        for mode in modes:
            if mode is GenerationMode.NEGATIVE and not operation.body and not operation.query:
                continue

            @seed(1)
            @settings(
                max_examples=EXAMPLES_OF_DESIGNS if is_design else EXAMPLES,
                database=None,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def send(case: Any) -> None:
                nonlocal made
                made += 1
                case.call_and_validate(
                    base_url=base_url, headers={"Authorization": f"token {token}"}, checks=CHECKS, timeout=20
                )

            try:
                send()
            except Exception as error:
                wrong.append("".join(traceback.format_exception(error)))
    return made, wrong


@pytest.fixture
def no_subprocesses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess_runner, "run", done_here)


@pytest.fixture
def send_everything(no_subprocesses: None, jp_serverapp: Any, jp_http_port: int, http_server: Any) -> Send:
    url = f"http://127.0.0.1:{jp_http_port}{jp_serverapp.base_url.rstrip('/')}"
    token = jp_serverapp.identity_provider.token

    async def send(with_designs: bool) -> tuple[int, list[str]]:
        return await asyncio.to_thread(fuzz, url, token, with_designs)

    return send


class TestAFleetInMemory:
    """A fleet in memory, in which requests start, change and end clusters."""

    @pytest.mark.slow
    async def test_no_request_is_a_mistake_of_the_server(
        self, fleet: MemoryFleet, hub: Hub, api: Api, send_everything: Send
    ) -> None:
        feed(hub)
        await api("POST", "clusters", body={"name": "there"})
        made, wrong = await send_everything(True)
        assert wrong == []
        assert made > 150
        assert any(asked[0] == "start" for asked in fleet.asked)
        assert (await api("GET", "status"))["version"]


class TestTheRealFleet:
    """The real fleet. No kind of cluster is allowed, so none is started."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: Any) -> Any:
        jp_server_config.JupyterDTF.allowed_kinds = []
        return jp_server_config

    @pytest.mark.slow
    async def test_no_request_is_a_mistake_of_the_server(self, api: Api, send_everything: Send) -> None:
        made, wrong = await send_everything(False)
        assert wrong == []
        assert made > 150
        assert await api("GET", "clusters") == []
