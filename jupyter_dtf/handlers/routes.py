"""The routes: paths and their handlers, whose methods contain the declarations (``operation``).

``openapi.json`` in this folder is generated from them; a test checks that it is up to date.
"""

from __future__ import annotations

from collections.abc import Iterator

from tornado.web import RequestHandler

from .base import UnknownHandler
from .clusters import ClusterHandler, ClustersHandler, DashboardHandler, MachinesHandler, PreviewHandler
from .dask import DaskHandler
from .designs import CheckHandler, DescribeHandler, PlaceHandler, ProfileHandler, RunPlacementHandler, ScriptHandler
from .examples import ExampleHandler, ExamplesHandler
from .forecasts import EfficiencyHandler, ForecastHandler, HardwareHandler, PlanHandler, RunForecastHandler
from .kinds import KindsHandler
from .media import HistogramsHandler, ImageHandler, MediaHandler, TableHandler, TextHandler
from .operation import Operation, operation_of
from .output import OutputHandler, OutputTextHandler
from .runs import (
    ContinueHandler,
    MetricsHandler,
    PauseHandler,
    ResumeHandler,
    RunEventsHandler,
    RunHandler,
    RunProfileHandler,
    RunsHandler,
    SearchHandler,
    SeriesHandler,
    StopHandler,
)
from .socket import EventsHandler
from .status import StatusHandler
from .templates import TemplateHandler, TemplatesHandler
from .traces import ChromeTraceHandler, TraceHandler

PREFIX = "/jupyter-dtf/api"

_PARAMETERS = {"name": r"([^/]+)", "run_id": r"([^/]+)", "path": r"(.*)"}

ROUTES: dict[str, type[RequestHandler]] = {
    "/status": StatusHandler,
    "/kinds": KindsHandler,
    "/clusters": ClustersHandler,
    "/clusters/preview": PreviewHandler,
    "/clusters/{name}": ClusterHandler,
    "/clusters/{name}/machines": MachinesHandler,
    "/clusters/{name}/dashboard": DashboardHandler,
    "/clusters/{name}/dask/{path}": DaskHandler,
    "/templates": TemplatesHandler,
    "/templates/{name}": TemplateHandler,
    "/designs/check": CheckHandler,
    "/designs/place": PlaceHandler,
    "/designs/describe": DescribeHandler,
    "/designs/script": ScriptHandler,
    "/designs/profile": ProfileHandler,
    "/designs/forecast": ForecastHandler,
    "/designs/plan": PlanHandler,
    "/hardware": HardwareHandler,
    "/examples": ExamplesHandler,
    "/examples/{name}": ExampleHandler,
    "/runs": RunsHandler,
    "/runs/{run_id}": RunHandler,
    "/runs/{run_id}/stop": StopHandler,
    "/runs/{run_id}/pause": PauseHandler,
    "/runs/{run_id}/continue": ContinueHandler,
    "/runs/{run_id}/profile": RunProfileHandler,
    "/runs/{run_id}/resume": ResumeHandler,
    "/searches/{search_id}": SearchHandler,
    "/runs/{run_id}/events": RunEventsHandler,
    "/runs/{run_id}/output": OutputHandler,
    "/runs/{run_id}/output.txt": OutputTextHandler,
    "/runs/{run_id}/series": SeriesHandler,
    "/runs/{run_id}/media": MediaHandler,
    "/runs/{run_id}/histograms": HistogramsHandler,
    "/runs/{run_id}/image": ImageHandler,
    "/runs/{run_id}/text": TextHandler,
    "/runs/{run_id}/table": TableHandler,
    "/runs/{run_id}/metrics.csv": MetricsHandler,
    "/runs/{run_id}/trace": TraceHandler,
    "/runs/{run_id}/placement": RunPlacementHandler,
    "/runs/{run_id}/forecast": RunForecastHandler,
    "/runs/{run_id}/efficiency": EfficiencyHandler,
    "/runs/{run_id}/chrome-trace.json": ChromeTraceHandler,
    "/events": EventsHandler,
}


_METHODS = ("get", "head", "post", "put", "patch", "delete")


def operations() -> Iterator[tuple[str, str, Operation]]:
    """Yield ``(path, method, declaration)`` for every route. Raises LookupError if a method is not declared."""
    for path, handler in ROUTES.items():
        for name in _METHODS:
            method = getattr(handler, name)
            if method is not getattr(RequestHandler, name):
                yield path, name, operation_of(method)


def patterns() -> list[tuple[str, type[RequestHandler]]]:
    """Return ``(regular expression, handler)`` for every route, relative to the server's base URL."""
    result = []
    for path, handler in ROUTES.items():
        pattern = (PREFIX + path).replace(".", r"\.")
        for name, expression in _PARAMETERS.items():
            pattern = pattern.replace(f"{{{name}}}", expression)
        result.append((pattern, handler))
    return [*result, (f"{PREFIX}/.*", UnknownHandler)]
