"""The routes. ``openapi.json`` beside this file describes them, and a test holds the two together."""

from __future__ import annotations

from tornado.web import RequestHandler

from .clusters import ClusterHandler, ClustersHandler, DashboardHandler, PreviewHandler
from .designs import (
    CheckHandler,
    DescribeHandler,
    PlaceHandler,
    ProfileHandler,
    RunPlacementHandler,
    ScriptHandler,
)
from .events import EventsHandler
from .kinds import KindsHandler
from .runs import MetricsHandler, RunEventsHandler, RunHandler, RunsHandler, StopHandler
from .status import StatusHandler
from .templates import TemplateHandler, TemplatesHandler
from .traces import ChromeTraceHandler, TraceHandler

PREFIX = "/jupyter-dtf/api"

_PARAMETERS = {"name": r"([^/]+)", "run_id": r"([^/]+)"}

ROUTES: dict[str, type[RequestHandler]] = {
    "/status": StatusHandler,
    "/kinds": KindsHandler,
    "/clusters": ClustersHandler,
    "/clusters/preview": PreviewHandler,
    "/clusters/{name}": ClusterHandler,
    "/clusters/{name}/dashboard": DashboardHandler,
    "/templates": TemplatesHandler,
    "/templates/{name}": TemplateHandler,
    "/designs/check": CheckHandler,
    "/designs/place": PlaceHandler,
    "/designs/describe": DescribeHandler,
    "/designs/profile": ProfileHandler,
    "/designs/script": ScriptHandler,
    "/runs": RunsHandler,
    "/runs/{run_id}": RunHandler,
    "/runs/{run_id}/stop": StopHandler,
    "/runs/{run_id}/events": RunEventsHandler,
    "/runs/{run_id}/metrics.csv": MetricsHandler,
    "/runs/{run_id}/trace": TraceHandler,
    "/runs/{run_id}/placement": RunPlacementHandler,
    "/runs/{run_id}/chrome-trace.json": ChromeTraceHandler,
    "/events": EventsHandler,
}


def patterns() -> list[tuple[str, type[RequestHandler]]]:
    """(regular expression, handler) of every route, below the server's base URL."""
    result = []
    for path, handler in ROUTES.items():
        pattern = (PREFIX + path).replace(".", r"\.")
        for name, expression in _PARAMETERS.items():
            pattern = pattern.replace(f"{{{name}}}", expression)
        result.append((pattern, handler))
    return result
