"""The routes as OpenAPI 3.1: ``python -m jupyter_dtf.handlers.openapi`` writes ``openapi.json`` beside this file."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..schema.api import (
    ClientMessage,
    ClusterInfo,
    ClusterPatch,
    ClusterRequest,
    DashboardInfo,
    ErrorInfo,
    EventsMessage,
    KindInfo,
    Preview,
    ServerMessage,
    StatusInfo,
    Template,
)
from ..schema.design import DescribeRequest, Design, DesignReport, ProfileRequest, RunPlacement
from ..schema.graph import LayerGraph
from ..schema.placement import Calibration, Placement
from ..schema.run import RunInfo
from ..schema.trace import TraceData
from .routes import PREFIX

FILE = Path(__file__).with_name("openapi.json")


class Operation(NamedTuple):
    """One method of one route. ``answer`` is a type, or the media type of what is no JSON; None for no body."""

    summary: str
    answer: Any = None
    status: int = 200
    body: Any = None
    errors: tuple[int, ...] = ()
    query: dict[str, str] = {}


CSV = "text/csv"

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("/status", "get"): Operation("Versions, and what a person should know of this server", StatusInfo),
    ("/kinds", "get"): Operation("The kinds of cluster that may be started, with their options", list[KindInfo]),
    ("/clusters", "get"): Operation("Every cluster, oldest first", list[ClusterInfo]),
    ("/clusters", "post"): Operation(
        "Start a cluster; it is answered at once, in state starting",
        ClusterInfo,
        status=201,
        body=ClusterRequest,
        errors=(400, 409, 503),
    ),
    ("/clusters/preview", "post"): Operation(
        "What a request would make, and what is wrong with it", Preview, body=ClusterRequest, errors=(400,)
    ),
    ("/clusters/{name}", "get"): Operation("One cluster", ClusterInfo, errors=(404,)),
    ("/clusters/{name}", "patch"): Operation(
        "New counts of tasks, for the runs to come", ClusterInfo, body=ClusterPatch, errors=(400, 404, 503)
    ),
    ("/clusters/{name}", "delete"): Operation(
        "Close a cluster and stop its runs; asked again while it is closing, end it at once",
        status=204,
        errors=(404, 503),
    ),
    ("/clusters/{name}/dashboard", "post"): Operation(
        "Where Dask's dashboard is; it is started when first asked for", DashboardInfo, errors=(404, 503)
    ),
    ("/templates", "get"): Operation("Every remembered cluster request, by name", list[Template], errors=(503,)),
    ("/templates/{name}", "put"): Operation(
        "Remember a cluster request", status=204, body=ClusterRequest, errors=(400, 503)
    ),
    ("/templates/{name}", "delete"): Operation("Forget a cluster request", status=204, errors=(404, 503)),
    ("/designs/check", "post"): Operation(
        "What a design would make, and what is wrong with it or with its text", DesignReport, body=Design, errors=(400,)
    ),
    ("/designs/place", "post"): Operation(
        "An automatic placement of a design's model; pinned layers stay", Placement, body=Design, errors=(400, 503)
    ),
    ("/designs/describe", "post"): Operation(
        "The layers of a model in a file", LayerGraph, body=DescribeRequest, errors=(400, 404, 503)
    ),
    ("/designs/script", "post"): Operation(
        "A program in plain TensorFlow that trains a design's model as it is placed", str, body=Design, errors=(400,)
    ),
    ("/designs/profile", "post"): Operation(
        "What a design's model, which is in a file, takes on a running cluster, measured by a short run",
        Calibration,
        body=ProfileRequest,
        errors=(400, 404, 409, 503),
    ),
    ("/runs", "get"): Operation("Every run, live and past, newest first", list[RunInfo]),
    ("/runs/{run_id}", "get"): Operation("One run", RunInfo, errors=(404,)),
    ("/runs/{run_id}", "delete"): Operation(
        "Forget a run that has ended; its run_dir stays", status=204, errors=(404, 409)
    ),
    ("/runs/{run_id}/stop", "post"): Operation(
        "Ask a run to stop; asked again, end it at once", status=202, errors=(404, 409, 503)
    ),
    ("/runs/{run_id}/events", "get"): Operation(
        "A run's events but its points",
        EventsMessage,
        errors=(400, 404),
        query={"after": "Only events with a greater sequence number; -1, the default, for all"},
    ),
    ("/runs/{run_id}/metrics.csv", "get"): Operation(
        "Every point of a run: metric, task, seq, step, time (seconds since the epoch), value", CSV, errors=(404,)
    ),
    ("/runs/{run_id}/trace", "get"): Operation(
        "What ran where in the steps that were traced; of very many operations the longest", TraceData, errors=(404,)
    ),
    ("/runs/{run_id}/placement", "get"): Operation(
        "Where the layers of a pipeline were to run and where they ran", RunPlacement, errors=(404,)
    ),
    ("/runs/{run_id}/chrome-trace.json", "get"): Operation(
        "All of a run's trace in Chrome's format, for chrome://tracing and Perfetto", dict[str, Any], errors=(404,)
    ),
    ("/events", "get"): Operation(
        "A WebSocket. The server sends ServerMessage: all clusters and runs, then what changes, and the events and "
        "decimated series of subscribed runs. The browser sends ClientMessage",
        status=101,
    ),
}

_ERRORS = {
    400: "A value breaks a rule; field says which",
    403: "Not authenticated, not authorized, or without the XSRF token",
    404: "There is nothing of that name",
    409: "Contradicts the present state",
    503: "A part that is needed is not there",
}


def generate() -> dict[str, Any]:
    """The document."""
    types = [kind for operation in OPERATIONS.values() for kind in (operation.answer, operation.body) if _is_type(kind)]
    _, schemas = msgspec.json.schema_components(
        [*types, ErrorInfo, ClientMessage, ServerMessage], ref_template="#/components/schemas/{name}"
    )
    schemas["ClientMessage"], schemas["ServerMessage"] = _schema(ClientMessage), _schema(ServerMessage)
    paths: dict[str, Any] = {}
    for (path, method), operation in OPERATIONS.items():
        paths.setdefault(PREFIX + path, {})[method] = _operation(path, operation)
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
                    "description": "Jupyter's login cookie; requests other than GET carry the header X-XSRFToken too",
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


def _operation(path: str, operation: Operation) -> dict[str, Any]:
    result: dict[str, Any] = {"summary": operation.summary}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", path)
    ]
    parameters += [
        {"name": name, "in": "query", "description": what, "schema": {"type": "integer"}}
        for name, what in operation.query.items()
    ]
    if parameters:
        result["parameters"] = parameters
    if operation.body is not None:
        result["requestBody"] = {"required": True, **_content(operation.body)}
    answers: dict[str, Any] = {str(operation.status): {"description": operation.summary, **_content(operation.answer)}}
    for status in sorted({*operation.errors, 403}):
        answers[str(status)] = {"description": _ERRORS[status], **_content(ErrorInfo)}
    result["responses"] = answers
    return result


def _dedented(value: Any) -> Any:
    """Descriptions come from docstrings, which Python dedents from 3.13 on; the file is the same for all."""
    if isinstance(value, dict):
        return {
            key: inspect.cleandoc(item) if key == "description" and isinstance(item, str) else _dedented(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_dedented(item) for item in value]
    return value


def text() -> str:
    """The document as it stands in the file."""
    return json.dumps(generate(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
