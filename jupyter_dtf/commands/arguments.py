"""Code shared by the magics and the command line: parsing of arguments, and tables of clusters and runs."""

from __future__ import annotations

import argparse
import textwrap
import time
from collections.abc import Iterable, Sequence
from typing import Any

from ..backend.kinds import registry
from ..client import wording
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
    """Add the arguments that describe a cluster to start; ``cluster_request`` reads them."""
    parser.add_argument(
        "name",
        nargs="?",
        default="",
        help="a name for the cluster (default: an unused name), or a design to start, such as lab.dtf",
    )
    parser.add_argument("--kind", default="", help=f"the kind of cluster (default: {DEFAULT_KIND})")
    parser.add_argument(
        "--jobs",
        default="",
        metavar="JOB=N,...",
        help="the number of tasks of each job, such as worker=2,ps=1 (default: worker=2)",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        dest="options",
        metavar="KEY=VALUE",
        help="an option of the kind of cluster, such as hosts=2; may be repeated",
    )


def add_runs_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that select runs; ``run_history.listed`` reads them."""
    parser.add_argument("-n", type=int, default=20, help="the number of runs to list (default: 20)")
    parser.add_argument(
        "--filter",
        default="",
        metavar="TERMS",
        help='list only runs that match conditions, such as "strategy = ps and val_loss < 0.4", or contain a word',
    )
    parser.add_argument(
        "--sort", default="", metavar="COLUMN", help="sort by this column; -COLUMN sorts in descending order"
    )
    parser.add_argument(
        "--columns",
        default="",
        metavar="A,B,...",
        help="the columns to show, such as name,batch_size,best.val_loss,tags",
    )
    parser.add_argument("--archived", action="store_true", help="include archived runs")


def cluster_request(arguments: argparse.Namespace, *, keep: bool, grace_s: float | None = None) -> ClusterRequest:
    """Create a request from the arguments of ``add_start_arguments``.

    Raises InvalidInput, and NotFound if the name is that of a design that does not exist.
    """
    grace_s = GRACE_S if grace_s is None else grace_s
    if arguments.name.endswith(SUFFIX):
        own, options = split_common(parse_options("", arguments.options))
        if arguments.kind or arguments.jobs or options:
            raise InvalidInput(
                "A design must be given without --kind, --jobs and --option, because it contains these settings, got "
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
    """Parse ``worker=2,ps=1`` into numbers of tasks. Raises InvalidInput."""
    jobs: dict[str, int] = {}
    for part in text.split(","):
        job, separator, count = part.partition("=")
        if not separator or not count.strip().isdecimal() or job.strip() in jobs:
            raise InvalidInput(f"Each job must be given once as JOB=N, as in worker=2,ps=1, got {text!r}", field="jobs")
        jobs[job.strip()] = int(count)
    return check_jobs(jobs)


def parse_options(kind: str, pairs: Iterable[str]) -> dict[str, Any]:
    """Parse ``KEY=VALUE`` options, with values of the types that the kind declares. Raises InvalidInput."""
    found = registry.kinds()
    types = {**COMMON, **({field.name: field.type for field in found[kind].fields()} if kind in found else {})}
    options: dict[str, Any] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator:
            raise InvalidInput(f"An option must be given as KEY=VALUE, got {pair!r}", field="options")
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
        raise InvalidInput(f"The option {key} must be of type {type_}, got {value!r}", field=f"options.{key}") from None


def find_run(text: str, infos: Sequence[RunInfo]) -> RunInfo:
    """Find a run by its id, part of its id, or its name. If there are several, the newest is returned.

    ``infos`` must be sorted from newest to oldest. Raises NotFound.
    """
    for matches in (lambda info: info.id == text, lambda info: info.name == text, lambda info: text in info.id):
        for info in infos:
            if text and matches(info):
                return info
    raise NotFound(f"A run must be given by its id, part of its id, or its name, got {text!r}, which matches none")


# -- writing -------------------------------------------------------------------------------------------------------


def clusters_table(infos: Sequence[ClusterInfo], runs: Sequence[RunInfo]) -> str:
    """Format clusters as a table, including the number of active runs of each."""
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
    """Format runs as a table."""
    if not infos:
        return "There are no runs."
    rows = [("RUN", "NAME", "STATE", "CLUSTER", "JOBS", "STARTED", "TOOK", "")]
    for info in infos:
        shown = list(info.headline.items())[:2]
        metrics = "  ".join(f"{name} {wording.metric_value(name, value)}" for name, value in shown)
        source = f"continues {info.resumed_from}" if info.resumed_from else ""
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
    """Format rows of cells as aligned columns, separated by two spaces."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)
