"""Formats runs as text: filters, sorts and compares runs, describes one in full, and exports its points."""

from __future__ import annotations

import argparse
import contextlib
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..client import wording
from ..client.runs_frame import row
from ..errors import InvalidInput, Unavailable
from ..schema.base import encode_json, to_plain
from ..schema.run import RunInfo
from ..schema.sizes import duration, number
from . import run_filter
from .arguments import runs_table, table

if TYPE_CHECKING:
    from ..client.run import Run

NO_MATCH = "No runs match."
FORMATS = ("csv", "json", "parquet")
_MOST_OF_A_CELL = 40
_DIFFERS = "*"


def listed(infos: Sequence[RunInfo], arguments: argparse.Namespace) -> tuple[list[RunInfo], str]:
    """Return the runs that the arguments of ``add_runs_arguments`` select, and a table of them. Raises InvalidInput."""
    if arguments.n < 0:
        raise InvalidInput(f"`-n` must be an integer >= 0, got {arguments.n}", field="n")
    found = chosen(infos, arguments.filter, arguments.sort, archived=arguments.archived)[: arguments.n]
    if not found and infos:
        return found, NO_MATCH
    if not arguments.columns:
        return found, runs_table(found)
    names = [name.strip() for name in arguments.columns.split(",") if name.strip()]
    return found, columns_table(found, names)


def chosen(infos: Sequence[RunInfo], wanted: str = "", by: str = "", *, archived: bool = False) -> list[RunInfo]:
    """Return the runs that match a filter, sorted by a column (see ``run_filter``). Raises InvalidInput."""
    infos = [info for info in infos if archived or not info.marks.archived]
    rows = run_filter.chosen([row(info) for info in infos], wanted)
    if by:
        rows = run_filter.ordered(rows, by)
    known = {info.id: info for info in infos}
    return [known[each["id"]] for each in rows]


def columns_table(infos: Sequence[RunInfo], names: Sequence[str]) -> str:
    """Format runs as a table with the given columns. Raises InvalidInput."""
    rows = [row(info) for info in infos]
    if not rows:
        return NO_MATCH
    keys = [run_filter.column(name, rows) for name in names]
    lines = [[name.upper() for name in names], *([cell(key, each.get(key)) for key in keys] for each in rows)]
    return wording.without_control(table(lines))


def comparison(infos: Sequence[RunInfo], *, everything: bool = False) -> str:
    """Format runs side by side: only values that differ, or ``everything`` with differences marked."""
    rows = [row(info) for info in infos]
    lines = [["", "", *(info.name for info in infos)]]
    for key in dict.fromkeys(key for each in rows for key in each):
        values = [each.get(key) for each in rows]
        if all(value in (None, "") for value in values) or key == "name":
            continue
        differs = any(value != values[0] for value in values)
        if differs or everything:
            lines.append([_DIFFERS if differs else "", key, *(cell(key, value) for value in values)])
    return wording.without_control(table(lines))


def description(run: Run, *, with_code: bool = False) -> str:
    """Format everything that is known about a run."""
    info = run.info
    facts = row(info)
    plain = [(key, cell(key, value, whole=True)) for key, value in facts.items() if "." not in key]
    parts = [table([[key, text] for key, text in plain if text])]
    origin = info.origin
    if origin.directory:
        parts.append(f"submitted in {origin.directory}" + (f", branch {origin.branch}" if origin.branch else ""))
    for title, values in (("Parameters", info.parameters), ("Versions", origin.versions)):
        if values:
            cells = [["", key, cell(key, value, whole=True)] for key, value in values.items()]
            parts.append(f"{title}\n" + table(cells))
    if info.headline or info.best:
        lines = [["", "metric", "last", "best"]]
        for name in dict.fromkeys([*info.headline, *info.best]):
            last = wording.metric_value(name, info.headline[name]) if name in info.headline else ""
            best = ""
            if (found := info.best.get(name)) is not None:
                where = f"epoch {found.epoch}" if found.epoch else f"step {found.step:g}"
                best = f"{wording.metric_value(name, found.value)} ({where})"
            lines.append(["", name, last, best])
        parts.append("Metrics\n" + table(lines))
    if info.tasks:
        tasks = [["", each.task, each.state.value, each.host, each.message] for each in info.tasks]
        parts.append("Tasks\n" + table(tasks))
    if with_code:
        parts += [f"{piece.name}\n{textwrap.indent(piece.text.rstrip(), '  ')}" for piece in run.code]
    elif run.code:
        parts.append(f"--code shows the code: {', '.join(piece.name for piece in run.code)}")
    return wording.without_control("\n\n".join(parts))  # code, metric names and branches are user input


def export(run: Run, form: str, path: str = "") -> None:
    """Write every point of a run to a file, or to standard output: all metrics of all tasks.

    ``csv`` and ``parquet`` contain the table ``run.metrics``; ``json`` contains the description of the run, and a
    series for each metric and task. Raises InvalidInput, OSError, and Unavailable for Parquet without pyarrow.
    """
    if form == "parquet":
        if not path:
            raise InvalidInput("--output must be given for Parquet, which is not text", field="output")
        try:
            run.metrics.to_parquet(path, index=False)
        except ImportError as error:
            raise Unavailable(f"Parquet needs pyarrow: pip install pyarrow ({error})") from None
        return
    with _opened(path) as file:
        if form == "csv":
            run.metrics.to_csv(file, index=False)
        else:
            file.write(encode_json({"run": to_plain(run.info), "series": _series(run)}).decode() + "\n")


def _opened(path: str) -> contextlib.AbstractContextManager[IO[str]]:
    return Path(path).open("w", encoding="utf-8", newline="") if path else contextlib.nullcontext(sys.stdout)


def _series(run: Run) -> list[dict[str, Any]]:
    found = []
    for (metric, task), points in run.metrics.groupby(["metric", "task"], sort=False):
        columns = {name: points[name].tolist() for name in ("step", "time", "value")}
        found.append({"metric": metric, "task": task, **columns})
    return found


def cell(key: str, value: Any, *, whole: bool = False) -> str:
    """Format a value of a column for display."""
    if value is None:
        return ""
    if key == "created":
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(value))
    if key == "seconds":
        return duration(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        group, _, metric = key.partition(".")
        return wording.metric_value(metric, value) if group in ("last", "best") else number(value)
    text = wording.without_control(str(value))
    if key == "commit":
        text = text[:12]
    return text if whole else textwrap.shorten(text, _MOST_OF_A_CELL, placeholder=" …")
