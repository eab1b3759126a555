"""Whatever is sent, the server never fails: it refuses invalid requests and says why."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError

from jupyter_dtf.backend.machine import subprocess_runner
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.handlers.openapi import OPERATIONS
from jupyter_dtf.schema import subprocess_job
from jupyter_dtf.schema.base import encode_json
from jupyter_dtf.subprocess_jobs import place_design

from .conftest import Api
from .fleet import MemoryFleet

DESIGN = json.loads((Path(__file__).parents[2] / "designs" / "full.dtf").read_text(encoding="utf-8"))
BODIES = {
    "clusters": {"name": "a", "kind": "local", "jobs": {"worker": 2}, "options": {}, "keep": False, "grace_s": 1.0},
    "clusters/preview": {"name": "a", "jobs": {"worker": 2, "ps": 1}, "options": {"hosts": 1}},
    "clusters/x": {"jobs": {"worker": 2}},
    "templates/x": {"name": "a", "jobs": {"worker": 2}},
    "designs/check": DESIGN,
    "designs/place": DESIGN,
    "designs/describe": {"path": "a.keras"},
    "designs/script": {**DESIGN, "placement": {"devices": {"logits": "/job:worker/task:0/device:CPU:0"}}},
    "designs/profile": {"design": DESIGN, "cluster": "a"},
    "designs/forecast": {"design": DESIGN, "settings": [{"strategy": "allreduce", "tasks": [1, 2], "per_device": 8}]},
    "designs/plan": {"design": DESIGN, "target": {"examples_per_second": 1e6}, "settings": []},
    "runs/x/forecast": {"strategy": "allreduce", "tasks": [1, 2], "per_device": 8},
    "examples/digits.ipynb": {"folder": "a"},
    "runs/x/profile": {"steps": 3},
    "runs/x/resume": {"cluster": "a", "step": 5},
    "searches/x": {"stop": False, "more": 5},
    "runs/x": {"name": "a", "tags": ["b"], "note": "c", "archived": True, "deleted": False},
}
METHODS = {"clusters": "POST", "clusters/preview": "POST", "clusters/x": "PATCH", "templates/x": "PUT"}
METHODS |= {path: "POST" for path in BODIES if path.startswith(("designs/", "examples/", "runs/", "searches/"))}
METHODS["runs/x"] = "PATCH"

VALUES: list[Any] = [
    None, True, 0, -1, 1 << 70, 1e308, 0.5, "", "a", "\x00", "ü" * 5000, "../../etc/passwd", "local", [], [[]], {},
    {"a": 1}, {"__class__": "os.system"}, [1, "2", None], {"": ""}, {"worker": None}, {"worker": 10**9},
]  # fmt: skip


def mutate(value: Any, dice: random.Random, depth: int = 0) -> Any:
    if dice.random() < 0.3 or depth > 3:
        return dice.choice(VALUES)
    if isinstance(value, dict):
        items = [(key, mutate(item, dice, depth + 1) if dice.random() < 0.5 else item) for key, item in value.items()]
        if dice.random() < 0.3:
            items.append((str(dice.choice(VALUES)), dice.choice(VALUES)))
        return dict(dice.sample(items, dice.randint(0, len(items))))
    if isinstance(value, list):
        return [mutate(item, dice, depth + 1) for item in value]
    return dice.choice([value, *VALUES])


def garble(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed[: dice.randint(0, len(changed))] if dice.random() < 0.3 else changed)


RAW = [
    b"", b"{", b"[" * 100_000, b'{"options":' + b'{"a":' * 900 + b"1" + b"}" * 901, b"\xff\xfe", b'"\\ud800"', b"NaN",
    b'{"grace_s":1e999}', b'{"grace_s":NaN}', b'{"jobs":{"worker":1,"worker":2}}', b"{}" * 2, b" " * (1 << 20) + b"{}",
]  # fmt: skip


def test_every_route_with_a_body_is_here() -> None:
    named = {"/examples/{name}": "/examples/digits.ipynb"}
    with_body = {
        (re.sub(r"\{\w+\}", "x", named.get(path, path).strip("/")), method.upper())
        for (path, method), operation in OPERATIONS.items()
        if operation.body
    }
    assert with_body == set(METHODS.items())


async def answer_to(api: Api, method: str, path: str, body: bytes) -> tuple[int, Any]:
    try:
        answer = await api(method, *path.split("/"), raw=body)
    except HTTPClientError as error:
        return error.code, json.loads(error.response.body if error.response is not None else b"null")
    return api.response.code, answer


async def done_here(name: str, argument: Any, answer: type[Any]) -> Any:
    """Do a job in this process, because two hundred processes would take minutes."""
    if name == subprocess_job.PLACE:
        return place_design.work(encode_json(argument))
    raise InvalidInput("not a model")


@pytest.mark.parametrize("path", BODIES)
async def test_no_body_is_a_mistake_of_the_server(
    fleet: MemoryFleet, api: Api, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess_runner, "run", done_here)
    dice = random.Random(path)
    bodies = [json.dumps(mutate(BODIES[path], dice)).encode() for _ in range(150)]
    bodies += [garble(json.dumps(BODIES[path]).encode(), dice) for _ in range(50)] + RAW
    answers = [await answer_to(api, METHODS[path], path, body) for body in bodies]
    for body, (status, answer) in zip(bodies, answers, strict=True):
        assert status in (200, 201, 204, 400, 404, 409, 413), (status, body[:200])
        assert status < 300 or answer["message"], body[:200]
    refused = [
        status in (400, 404) or (isinstance(answer, dict) and answer.get("problems")) for status, answer in answers
    ]
    assert sum(map(bool, refused)) > 50


@pytest.mark.parametrize("name", ["%2e%2e%2f", "a%00b", "%ff%fe", "ü", "a" * 5000, "'; DROP TABLE runs; --", "%s%d{0}"])
@pytest.mark.parametrize("resource", ["clusters", "runs"])
async def test_no_name_is_a_mistake_of_the_server(fleet: MemoryFleet, api: Api, resource: str, name: str) -> None:
    with pytest.raises(HTTPClientError) as caught:
        await api("GET", resource, name)
    assert caught.value.code in (400, 404)
