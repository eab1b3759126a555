from __future__ import annotations

import inspect
import json
from typing import Any

import msgspec
from tornado.web import RequestHandler

from jupyter_dtf.handlers.openapi import FILE, OPERATIONS, generate, text
from jupyter_dtf.handlers.routes import PREFIX, ROUTES, patterns

METHODS = ("get", "head", "post", "put", "patch", "delete")


def implemented(handler: type[RequestHandler]) -> set[str]:
    return {m for m in METHODS if getattr(handler, m) is not getattr(RequestHandler, m)}


def test_the_file_is_what_the_routes_and_structs_are_now() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "stale: run python -m jupyter_dtf.handlers.openapi"


def test_every_method_of_every_handler_is_described() -> None:
    assert set(OPERATIONS) == {(path, method) for path, handler in ROUTES.items() for method in implemented(handler)}


def test_every_reference_leads_somewhere() -> None:
    document = generate()
    found: list[str] = []

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            found.extend(value for key, value in node.items() if key == "$ref")
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(document)
    names = {reference.removeprefix("#/components/schemas/") for reference in found}
    assert names <= set(document["components"]["schemas"])
    assert {"RunInfo", "TaskInfo", "ClusterInfo", "ErrorInfo"} <= names


def test_the_document_is_openapi() -> None:
    import jsonschema

    document = json.loads(text())
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    assert document["openapi"].startswith("3.1")
    for path, item in document["paths"].items():
        assert path.startswith(PREFIX)
        for operation in item.values():
            assert operation["summary"]
            declared = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
            assert {f"{{{name}}}" for name in declared} == {part for part in path.split("/") if part.startswith("{")}


def test_the_server_has_the_routes_that_the_table_has(jp_serverapp: Any) -> None:
    registered = [
        (rule.matcher.regex.pattern.rstrip("$"), rule.target)
        for group in jp_serverapp.web_app.default_router.rules
        for rule in getattr(group.target, "rules", [])
        if "jupyter-dtf" in getattr(getattr(rule.matcher, "regex", None), "pattern", "")
    ]
    base = jp_serverapp.base_url.rstrip("/")
    assert sorted(registered, key=str) == sorted(
        ((base + pattern, handler) for pattern, handler in patterns()), key=str
    )


def test_what_a_handler_answers_is_what_is_described() -> None:
    """The source of each handler contains the name of the struct of its request body."""
    for (path, method), operation in OPERATIONS.items():
        if isinstance(operation.body, type) and issubclass(operation.body, msgspec.Struct):
            assert operation.body.__name__ in inspect.getsource(getattr(ROUTES[path], method)), path
