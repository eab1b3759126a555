"""Generates the browser's types from the structs: ``python -m jupyter_dtf.schema.typescript > src/api/schema.ts``.

A field with a default is optional if the browser sends the struct, and always present if the server sends it. A value
of a metric (``dict[str, float]``) is null if it is not finite. ``Points`` are never sent to the browser, which receives
decimated series instead.
"""

from __future__ import annotations

import ast
import enum
import inspect
import itertools
import json
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from . import (
    api,
    base,
    checkpoint,
    cluster,
    cluster_request,
    design,
    efficiency,
    events,
    forecast,
    graph,
    hardware,
    hosts,
    machines,
    media,
    metrics,
    notify,
    origin,
    placement,
    protocol,
    run,
    run_marks,
    runs_dashboard,
    scale_plan,
    search_trial,
    socket_messages,
    trace,
)

HEADER = """\
// Made from jupyter_dtf/schema by `python -m jupyter_dtf.schema.typescript`. Change the structs there, not this file.
"""

SENT_BY_THE_BROWSER = (
    cluster_request.ClusterRequest,
    api.ClusterPatch,
    api.ResumeRequest,
    api.RunProfileRequest,
    run_marks.RunPatch,
    search_trial.SearchRequest,
    socket_messages.Subscribe,
    socket_messages.Show,
    socket_messages.Unsubscribe,
)

NOT_AMONG_EVENTS = (events.Points, *get_args(events.MediaEvent))
"""Events that are not sent to the browser, which requests series, histograms and images instead."""

ENUMS: tuple[type[enum.Enum], ...] = (run.RunState, run.TaskState, api.ClusterState)

STRUCTS: tuple[type[msgspec.Struct], ...] = (
    run.Progress,
    run.RunProfile,
    run.TaskInfo,
    run.Best,
    origin.Source,
    origin.Origin,
    run_marks.RunMarks,
    run_marks.RunPatch,
    notify.Alarm,
    search_trial.TrialInfo,
    search_trial.SearchRequest,
    run.RunInfo,
    hosts.HostDesign,
    hosts.TaskPlace,
    cluster_request.ClusterRequest,
    api.ClusterPatch,
    api.ResumeRequest,
    api.RunProfileRequest,
    api.ExampleRequest,
    api.ExampleCopy,
    machines.GpuInfo,
    machines.HostInfo,
    machines.ComingHost,
    machines.MachineSeries,
    api.TaskLocation,
    api.ClusterInfo,
    api.FieldInfo,
    api.KindInfo,
    api.Problem,
    api.Preview,
    api.Template,
    api.StatusInfo,
    api.DashboardInfo,
    api.OutputPage,
    api.ErrorInfo,
    checkpoint.CheckpointInfo,
    *(event for event in get_args(events.AnyEvent) if event not in NOT_AMONG_EVENTS),
    *get_args(events.MediaEvent),
    media.MediaSeries,
    socket_messages.Subscribe,
    socket_messages.Show,
    socket_messages.Unsubscribe,
    socket_messages.HelloMessage,
    socket_messages.ClustersMessage,
    socket_messages.RunsMessage,
    socket_messages.EventsMessage,
    socket_messages.SeriesFrame,
    socket_messages.SeriesMessage,
    socket_messages.SocketError,
    trace.TracedOp,
    trace.Transfer,
    trace.TraceData,
    graph.Layer,
    graph.Edge,
    graph.Input,
    graph.Refusal,
    graph.LayerGraph,
    placement.Placement,
    placement.Device,
    placement.Link,
    placement.Calibration,
    placement.DeviceLoad,
    placement.Cut,
    placement.Slot,
    placement.Prediction,
    design.ClusterDesign,
    design.ModelSource,
    design.ModelDesign,
    design.RunSettings,
    design.Design,
    design.DesignProblem,
    design.DesignReport,
    design.DescribeRequest,
    design.ProfileRequest,
    design.LayerPlace,
    design.StepTimes,
    design.RunPlacement,
    hardware.DeviceFigures,
    hardware.NetworkFigures,
    hardware.Hardware,
    forecast.ForecastSettings,
    forecast.ForecastRequest,
    forecast.StepParts,
    forecast.ForecastPoint,
    forecast.Forecast,
    scale_plan.ScaleTarget,
    scale_plan.PlanRequest,
    scale_plan.PlanOption,
    scale_plan.ScalePlan,
    efficiency.PartGap,
    efficiency.EfficiencyReport,
    runs_dashboard.DashboardRun,
    runs_dashboard.DashboardPlot,
    runs_dashboard.RunsDashboard,
)

FILLED_BY_THE_BROWSER: tuple[type[msgspec.Struct], ...] = (
    cluster_request.ClusterRequest,
    hosts.HostDesign,
    hosts.TaskPlace,
    graph.Layer,
    graph.Input,
    graph.Refusal,
    graph.LayerGraph,
    placement.Placement,
    placement.Link,
    placement.Device,
    placement.Calibration,
    design.ClusterDesign,
    design.ModelSource,
    design.ModelDesign,
    design.RunSettings,
    design.Design,
    forecast.ForecastSettings,
    scale_plan.ScaleTarget,
    runs_dashboard.DashboardRun,
    runs_dashboard.DashboardPlot,
    runs_dashboard.RunsDashboard,
)
"""Structs of documents written by users, which may omit fields that have a default: the browser fills in ``DEFAULTS``,
and forms show them."""

CONSTANTS: dict[str, tuple[Any, str]] = {
    "USUAL_JOBS": (cluster, "USUAL_JOBS"),
    "FIRST_JOBS": (cluster, "FIRST_JOBS"),
    "CPU_JOBS": (cluster, "CPU_JOBS"),
    "MAX_TASKS_PER_JOB": (cluster, "MAX_TASKS_PER_JOB"),
    "JOB_NAME": (cluster, "JOB_NAME"),
    "CLUSTER_NAME": (cluster_request, "CLUSTER_NAME"),
    "FINAL_STATES": (run, "FINAL_STATES"),
    "STORY": (events, "STORY"),
    "PROFILE_STEPS": (trace, "PROFILE_STEPS"),
    "SPLITTABLE": (placement, "SPLITTABLE"),
    "FORECAST_STRATEGIES": (forecast, "STRATEGIES"),
    "FORECAST_ALGORITHMS": (forecast, "ALGORITHMS"),
    "FORECAST_PRECISIONS": (forecast, "PRECISIONS"),
    "FORECAST_TRANSPORTS": (forecast, "TRANSPORTS"),
    "FORECAST_COMPRESSIONS": (forecast, "COMPRESSIONS"),
    "DESIGN_SUFFIX": (design, "SUFFIX"),
    "RUNS_DASHBOARD_SUFFIX": (runs_dashboard, "SUFFIX"),
    "TASK_LOAD": (metrics, "TASK_LOAD"),
    "STEP_PARTS": (metrics, "STEP_PARTS"),
    "PAIR_LOAD": (metrics, "PAIR_LOAD"),
    "SPEED_METRICS": (metrics, "SPEED"),
    "LESS_IS_BETTER_NAME": (metrics, "LESS"),
    "MORE_IS_BETTER_NAME": (metrics, "MORE"),
}
"""Constants that the browser needs in addition to the structs: for each name in TypeScript, the module and the name in
Python."""

UNIONS: dict[str, Any] = {
    "StoryEvent": events.StoryEvent,
    "AnyEvent": Union[tuple(event for event in get_args(events.AnyEvent) if event not in NOT_AMONG_EVENTS)],
    "ClientMessage": socket_messages.ClientMessage,
    "ServerMessage": socket_messages.ServerMessage,
}

_PLAIN: dict[Any, str] = {
    str: "string",
    int: "number",
    float: "number",
    bytes: "string",  # in base64
    bool: "boolean",
    type(None): "null",
    Any: "unknown",
}


def generate() -> str:
    """Return the contents of ``src/api/schema.ts``."""
    parts = [HEADER, _protocol()]
    parts += [f"{_comment(kind.__doc__)}export type {kind.__name__} = {_values(kind)};\n" for kind in ENUMS]
    parts += [_interface(struct) for struct in STRUCTS]
    parts += [f"export type {name} = {_union(members)};\n" for name, members in UNIONS.items()]
    parts += [_constant(name, *home) for name, home in CONSTANTS.items()]
    parts.append(_defaults())
    parts.append(
        f"{_comment('An event with its sequence number within its run, as sent over the socket.')}"
        "export type NumberedEvent = AnyEvent & { seq: number };\n"
    )
    return "\n".join(parts)


def _protocol() -> str:
    """Return the constants with the protocols that a page of this version supports."""
    comment = _comment("The newest and the oldest protocol that this page supports: `jupyter_dtf/schema/protocol.py`.")
    return f"{comment}export const PROTOCOL = {protocol.PROTOCOL};\nexport const OLDEST = {protocol.OLDEST};\n"


def _values(kind: type[enum.Enum]) -> str:
    return " | ".join(f"'{member.value}'" for member in kind)


def _union(members: Any) -> str:
    return " | ".join(member.__name__ for member in get_args(members) if member in STRUCTS)


def _interface(struct: type[msgspec.Struct]) -> str:
    hints = get_type_hints(struct)
    docs = dict(_field_docs(struct))
    lines = [f"{_comment(struct.__doc__)}export interface {struct.__name__} {{"]
    config = struct.__struct_config__
    if config.tag is not None:
        lines.append(f"  {config.tag_field}: '{config.tag}';")
    for field in msgspec.structs.fields(struct):
        optional = "" if field.required or struct not in SENT_BY_THE_BROWSER else "?"
        type_ = (
            "NumberedEvent[]"
            if (struct, field.name) == (socket_messages.EventsMessage, "events")
            else _type(hints[field.name])
        )
        comment = textwrap.indent(_comment(docs.get(field.name)), "  ")
        lines.append(f"{comment}  {field.encode_name}{optional}: {type_};")
    return "\n".join([*lines, "}", ""])


def _constant(name: str, module: Any, origin: str) -> str:
    value = getattr(module, origin)
    comment = _comment(dict(_docs(ast.parse(inspect.getsource(module)).body)).get(origin))
    if name.endswith("_NAME"):
        return f"{comment}export const {name} = /{value}/;\n"
    if isinstance(value, tuple):
        kinds = {"string" if type(member) is str else type(member).__name__ for member in value}
        plain = ", ".join(f"'{msgspec.to_builtins(member)}'" for member in value)
        return f"{comment}export const {name}: readonly {' | '.join(kinds)}[] = [{plain}];\n"
    if isinstance(value, dict):
        return f"{comment}export const {name}: Readonly<Record<string, string>> = {json.dumps(value)};\n"
    return f"{comment}export const {name} = {repr(value) if isinstance(value, str) else json.dumps(value)};\n"


def _defaults() -> str:
    comment = _comment("The default values of fields that a document may omit. Copy them before changing any.")
    lines = [f"  {struct.__name__}: {_defaults_of(struct)}" for struct in FILLED_BY_THE_BROWSER]
    return "\n".join([f"{comment}export const DEFAULTS = {{", ",\n".join(lines), "};", ""])


def _defaults_of(struct: type[msgspec.Struct]) -> str:
    values = {
        field.encode_name: field.default_factory() if field.default is msgspec.NODEFAULT else field.default
        for field in msgspec.structs.fields(struct)
        if not field.required
    }
    return json.dumps(msgspec.to_builtins(values))


def _type(hint: Any) -> str:
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is list:
        inner = _type(arguments[0])
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if origin is dict:
        value = "number | null" if arguments[1] is float else _type(arguments[1])
        return f"Record<string, {value}>"
    if origin is Union or type(hint).__name__ == "UnionType":
        return " | ".join(_type(argument) for argument in arguments)
    if hint in ENUMS or hint in STRUCTS:
        return str(hint.__name__)
    raise TypeError(f"A field must be of a type that can be written in TypeScript, got {hint!r}")


def _field_docs(struct: type[msgspec.Struct]) -> Iterator[tuple[str, str]]:
    """Yield ``(field, docstring)`` for the documented fields of the struct and its bases."""
    for kind in struct.__mro__:
        if not kind.__module__.startswith("jupyter_dtf."):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        assert isinstance(definition, ast.ClassDef)
        yield from _docs(definition.body)


def _docs(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield ``(name, docstring)`` for each assignment that is followed by a docstring."""
    for one, after in itertools.pairwise(body):
        targets = one.targets if isinstance(one, ast.Assign) else [one.target] if isinstance(one, ast.AnnAssign) else []
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            yield from ((target.id, str(after.value.value)) for target in targets if isinstance(target, ast.Name))


def _comment(doc: str | None) -> str:
    if not doc:
        return ""
    lines = base.description_of(doc).replace("``", "`").splitlines()
    if len(lines) == 1:
        return f"/** {lines[0]} */\n"
    return "\n".join(["/**", *(f" * {line}".rstrip() for line in lines), " */", ""])


if __name__ == "__main__":
    sys.stdout.write(generate())
