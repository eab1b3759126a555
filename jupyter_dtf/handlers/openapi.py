"""Describes the routes in OpenAPI 3.1. ``python -m jupyter_dtf.handlers.openapi`` writes ``openapi.json`` here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from ..schema.api import ErrorInfo
from ..schema.base import description_of
from ..schema.socket_messages import ClientMessage, ServerMessage
from .operation import Operation
from .routes import PREFIX, operations

FILE = Path(__file__).with_name("openapi.json")

OPERATIONS: dict[tuple[str, str], Operation] = {(path, method): said for path, method, said in operations()}
"""The declarations of all routes, keyed by path and method."""

_QUERY_TYPES = {int: "integer", float: "number", str: "string"}
_ERRORS = {
    400: "A value is invalid; field names it",
    403: "Not authenticated, not authorized, or without the XSRF token",
    404: "Nothing with this name exists",
    409: "The current state does not allow the request",
    413: "The body is larger than the route allows",
    502: "Dask returned an error",
    503: "A required resource is not available",
}


def generate() -> dict[str, Any]:
    """Return the OpenAPI document."""
    types = [kind for operation in OPERATIONS.values() for kind in (operation.answer, operation.body) if _is_type(kind)]
    _, schemas = msgspec.json.schema_components(
        [*types, ErrorInfo, ClientMessage, ServerMessage], ref_template="#/components/schemas/{name}"
    )
    schemas["ClientMessage"], schemas["ServerMessage"] = _schema(ClientMessage), _schema(ServerMessage)
    paths: dict[str, Any] = {}
    for (path, method), operation in OPERATIONS.items():
        paths.setdefault(PREFIX + path, {})[method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "jupyter_dtf",
            "version": "1",
            "summary": "Distributed TensorFlow clusters and runs",
            "license": {"name": "BSD-3-Clause", "identifier": "BSD-3-Clause"},
        },
        "security": [{"token": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "schemas": _dedented(dict(sorted(schemas.items()))),
            "securitySchemes": {
                "token": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "`token ` and Jupyter's token",
                },
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "username-{host}-{port}",
                    "description": "Jupyter's login cookie; requests other than GET also need the header X-XSRFToken",
                },
            },
        },
    }


def _is_type(kind: Any) -> bool:
    return kind is not None and not isinstance(kind, str)


def _schema(kind: Any) -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([kind], ref_template="#/components/schemas/{name}")
    return schema


def _content(kind: Any) -> dict[str, Any]:
    if isinstance(kind, str):
        return {"content": {kind: {"schema": {"type": "string"}}}}
    return {"content": {"application/json": {"schema": _schema(kind)}}} if kind is not None else {}


def _operation(operation: Operation) -> dict[str, Any]:
    result: dict[str, Any] = {"summary": operation.summary}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in operation.path
    ]
    parameters += [
        {"name": asked.name, "in": "query", "description": asked.help, "schema": {"type": _QUERY_TYPES[asked.type]}}
        for asked in operation.query
    ]
    if parameters:
        result["parameters"] = parameters
    if operation.body is not None:
        result["requestBody"] = {"required": True, **_content(operation.body)}
    answers: dict[str, Any] = {str(operation.status): {"description": operation.summary, **_content(operation.answer)}}
    for status in sorted({*operation.errors, 403, 413}):
        answers[str(status)] = {"description": _ERRORS[status], **_content(ErrorInfo)}
    result["responses"] = answers
    return result


def _dedented(value: Any) -> Any:
    """Dedent all descriptions, which are docstrings. Only Python 3.13 and later dedents them automatically.

    This makes the file the same for all versions. The sections of docstrings (``Args:`` and so on), which only concern
    Python, are omitted.
    """
    if isinstance(value, dict):
        return {
            key: description_of(item) if key == "description" and isinstance(item, str) else _dedented(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_dedented(item) for item in value]
    return value


def text() -> str:
    """Return the document in the form in which it is written to the file."""
    return json.dumps(generate(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
