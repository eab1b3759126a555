"""A script as a program: every task runs it like ``python script.py``, with flags for its place in the cluster."""

from __future__ import annotations

import linecache
import os
import sys
import types
from collections.abc import Iterable

from ... import entry_points
from ...schema.base import Struct
from ...schema.cluster import ClusterSpec
from .context import Context

COMPAT = "jupyter_dtf.compat"


class Script(Struct):
    """A script that can be sent to tasks."""

    path: str
    """The script's path. Modules in its directory can be imported, with lower priority than installed ones."""
    source: str
    arguments: list[str]
    """The command-line arguments after the script's name."""
    place_flags: list[str]
    """The flags for the task's place that the script accepts, such as ``task_index``, spelled as in the script."""


def run(script: Script, ctx: Context) -> None:
    """Run the script as ``__main__`` in this process."""
    flags = place_arguments(script.place_flags, ctx.cluster_spec, ctx.job_name, ctx.task_index)
    sys.argv = [script.path, *flags, *script.arguments]
    sys.path.append(os.path.dirname(os.path.abspath(script.path)))  # at the end, like all of the user's entries
    offer_stand_ins()
    main = types.ModuleType("__main__")
    main.__file__ = script.path
    sys.modules["__main__"] = main
    lines = script.source.splitlines(keepends=True)
    linecache.cache[script.path] = (len(script.source), None, lines, script.path)  # for tracebacks
    try:
        exec(compile(script.source, script.path, "exec"), main.__dict__)  # noqa: S102 - the user's own program
    except ModuleNotFoundError:
        if not entry_points.points(COMPAT):
            print(f"No stand-ins for other libraries are installed. {entry_points.reinstall()}", file=sys.stderr)
        raise


def is_place_flag(name: str) -> bool:
    """Return whether a flag of this name specifies a task's place in the cluster, as in TensorFlow's own programs."""
    name = name.replace("-", "_")
    return name in ("job_name", "task_index", "task_id", "cluster_spec") or name.endswith("_hosts")


def place_arguments(flags: Iterable[str], spec: ClusterSpec, job: str, index: int) -> list[str]:
    """Return ``--flag=value`` for each flag, except flags such as ``ps_hosts`` for jobs that the cluster lacks."""
    values = {"job_name": job, "task_index": str(index), "task_id": str(index), "cluster_spec": spec.as_flag()}
    values |= {f"{name}_hosts": ",".join(tasks.values()) for name, tasks in spec.jobs.items()}
    places = {flag: values.get(flag.replace("-", "_")) for flag in flags}
    return [f"--{flag}={value}" for flag, value in places.items() if value is not None]


def offer_stand_ins() -> None:
    """Make stand-ins importable for libraries that are not installed, such as Horovod.

    Each stand-in is a function that an entry point names, possibly one of another package. It makes the library's names
    importable, but imports nothing before they are used.
    """
    for name, point in entry_points.points(COMPAT).items():
        try:
            point.load()()
        except Exception as error:  # most programs do not need the stand-in
            print(f"The stand-in for {name} failed: {type(error).__name__}: {error}", file=sys.stderr)
