"""What the magics and the command line have in common: how their arguments are read, and their lists as text."""

from __future__ import annotations

import argparse
import textwrap
import time
from collections.abc import Iterable, Sequence
from typing import Any

from ..backend.kinds import registry
from ..client import wording
from ..client.run import task_names
from ..errors import InvalidInput, NotFound
from ..schema.api import ClusterInfo
from ..schema.base import convert
from ..schema.cluster import check_jobs, default_jobs
from ..schema.cluster_request import COMMON, DEFAULT_KIND, GRACE_S, ClusterRequest, split_common
from ..schema.design import SUFFIX, Design
from ..schema.run import RunInfo
from ..schema.sizes import bytes_, duration

_MOST_MESSAGE = 70

# -- reading -------------------------------------------------------------------------------------------------------


def add_start_arguments(parser: argparse.ArgumentParser) -> None:
    """What describes a cluster to start; ``cluster_request`` reads it."""
    parser.add_argument(
        "name",
        nargs="?",
        default="",
        help="a name for the cluster (without one, a free one is chosen), or a design, such as lab.dtf, to start",
    )
    parser.add_argument("--kind", default="", help=f"the kind of cluster (default: {DEFAULT_KIND})")
    parser.add_argument(
        "--jobs",
        default="",
        metavar="JOB=N,...",
        help="tasks of each job (default: worker=2), as worker=2,ps=1",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        dest="options",
        metavar="KEY=VALUE",
        help="an option of the kind, such as hosts=2; may be repeated",
    )


def add_runs_arguments(parser: argparse.ArgumentParser) -> None:
    """What chooses among runs; ``run_history.listed`` reads it."""
    parser.add_argument("-n", type=int, default=20, help="how many (default: 20)")
    parser.add_argument(
        "--filter",
        default="",
        metavar="TERMS",
        help='only these, such as "strategy = ps and val_loss < 0.4", or a word',
    )
    parser.add_argument("--sort", default="", metavar="COLUMN", help="by a column; -COLUMN: the greatest first")
    parser.add_argument("--columns", default="", metavar="A,B,...", help="such as name,batch_size,best.val_loss,tags")
    parser.add_argument("--archived", action="store_true", help="those that were put aside as well")


def cluster_request(arguments: argparse.Namespace, *, keep: bool, grace_s: float | None = None) -> ClusterRequest:
    """The request that the arguments of ``add_start_arguments`` make. Raises InvalidInput, NotFound for a design."""
    grace_s = GRACE_S if grace_s is None else grace_s
    if arguments.name.endswith(SUFFIX):
        own, options = split_common(parse_options("", arguments.options))
        if arguments.kind or arguments.jobs or options:
            raise InvalidInput(
                "A design says what --kind, --jobs and --option would. Received beside it: "
                f"{' '.join(filter(None, [arguments.kind, arguments.jobs, *arguments.options]))}"
            )
        from ..backend.planning import check_design

        return check_design.request_of(Design.open(arguments.name), **{"keep": keep, "grace_s": grace_s, **own})
    kind = arguments.kind or DEFAULT_KIND
    own, options = split_common(parse_options(kind, arguments.options))
    raw = {
        "name": arguments.name,
        "kind": kind,
        "jobs": parse_jobs(arguments.jobs) if arguments.jobs else default_jobs(),
        "options": options,
        "keep": keep,
        "grace_s": grace_s,
        **own,
    }
    return convert(raw, ClusterRequest)


def parse_jobs(text: str) -> dict[str, int]:
    """``worker=2,ps=1`` as counts of tasks. Raises InvalidInput."""
    jobs: dict[str, int] = {}
    for part in text.split(","):
        job, separator, count = part.partition("=")
        if not separator or not count.strip().isdecimal() or job.strip() in jobs:
            raise InvalidInput(
                f"Jobs are given once each as JOB=N, as in worker=2,ps=1. Received: {text!r}", field="jobs"
            )
        jobs[job.strip()] = int(count)
    return check_jobs(jobs)


def parse_options(kind: str, pairs: Iterable[str]) -> dict[str, Any]:
    """``KEY=VALUE`` of each option, the value read as the kind or all kinds have it. Raises InvalidInput."""
    found = registry.kinds()
    types = {**COMMON, **({field.name: field.type for field in found[kind].fields()} if kind in found else {})}
    options: dict[str, Any] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator:
            raise InvalidInput(f"An option is given as KEY=VALUE. Received: {pair!r}", field="options")
        options[key] = _option(key, value, types.get(key, "string"))
    return options


_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _option(key: str, value: str, type_: str) -> Any:
    try:
        if type_ == "boolean":
            return _BOOLEANS[value.lower()]
        if type_ == "bytes":
            from dask.utils import parse_bytes

            return parse_bytes(value)
        return {"integer": int, "number": float}.get(type_, str)(value)
    except (ValueError, KeyError):
        raise InvalidInput(
            f"The option {key} is of type {type_}. Received: {value!r}", field=f"options.{key}"
        ) from None


def find_run(text: str, infos: Sequence[RunInfo]) -> RunInfo:
    """The run with this id, or one part of whose id or whose name this is: the newest. Raises NotFound.

    ``infos`` are newest first.
    """
    for matches in (lambda info: info.id == text, lambda info: info.name == text, lambda info: text in info.id):
        for info in infos:
            if text and matches(info):
                return info
    raise NotFound(f"A run is given by its id, a part of it, or its name. Received: {text!r}, which no run has")


def check_task(text: str, info: RunInfo) -> str:
    """A task of a run, ``worker:1``. Raises NotFound."""
    names = task_names(info)
    if text not in names:
        raise NotFound(f"The tasks of {info.name} are {', '.join(names)}. Received: {text!r}")
    return text


# -- writing -------------------------------------------------------------------------------------------------------


def clusters_table(infos: Sequence[ClusterInfo], runs: Sequence[RunInfo]) -> str:
    """Clusters as lines of text, with the number of their runs that are under way."""
    if not infos:
        return "There are no clusters."
    rows = [("NAME", "STATE", "KIND", "JOBS", "CORES", "MEMORY", "RUNS", "AGE")]
    for info in infos:
        under_way = sum(run.cluster == info.name and not run.state.is_final for run in runs)
        rows.append(
            (
                info.name,
                wording.cluster_state(info),
                info.kind,
                wording.jobs(info.jobs),
                str(sum(host.threads for host in info.hosts) or "-"),
                bytes_(memory) if (memory := sum(host.memory_bytes for host in info.hosts)) else "-",
                str(under_way),
                duration(time.time() - info.created),
            )
        )
    said = [info.incompatible for info in infos if info.incompatible]
    said += [f"{info.name}: {warning}" for info in infos for warning in info.warnings]
    return "".join([table(rows), *(f"\n{line}." for line in said)])


def runs_table(infos: Sequence[RunInfo]) -> str:
    """Runs as lines of text."""
    if not infos:
        return "There are no runs."
    rows = [("RUN", "NAME", "STATE", "CLUSTER", "JOBS", "STARTED", "TOOK", "")]
    for info in infos:
        shown = list(info.headline.items())[:2]
        metrics = "  ".join(f"{name} {wording.metric_value(name, value)}" for name, value in shown)
        source = f"goes on from {info.resumed_from}" if info.resumed_from else ""
        message = " · ".join(filter(None, [info.message, source, *list(info.not_finite.values())[:1]]))
        message = textwrap.shorten(wording.without_control(message), _MOST_MESSAGE, placeholder=" …")
        end = info.ended if info.state.is_final else time.time()
        rows.append(
            (
                info.id,
                wording.without_control(info.name),
                info.state.value,
                info.cluster,
                wording.jobs(info.jobs),
                time.strftime("%Y-%m-%d %H:%M", time.localtime(info.created)),
                duration(end - info.started) if info.started and end else "-",
                "  ".join(filter(None, [metrics, message])),
            )
        )
    return table(rows)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells in aligned columns, two spaces apart."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)
