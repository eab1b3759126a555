"""A script as a program: every task runs it as ``python script.py`` would, and it is told where it is."""

from __future__ import annotations

import linecache
import os
import sys
import types
from collections.abc import Iterable

from ... import installed
from ...schema.base import Struct
from ...schema.cluster import ClusterSpec
from .context import Context

COMPAT = "jupyter_dtf.compat"


class Script(Struct):
    """A script that is ready to travel."""

    path: str
    """Where it is; its directory is where it finds modules beside it, after those that are installed."""
    source: str
    arguments: list[str]
    """What follows its name on the command line."""
    place_flags: list[str]
    """The flags by which it asks for its place, such as ``task_index``; spelled as the script does."""


def run(script: Script, ctx: Context) -> None:
    """Run the script as ``__main__`` in this process."""
    flags = place_arguments(script.place_flags, ctx.cluster_spec, ctx.job_name, ctx.task_index)
    sys.argv = [script.path, *flags, *script.arguments]
    sys.path.append(os.path.dirname(os.path.abspath(script.path)))  # last, as all that is the person's
    offer_stand_ins()
    main = types.ModuleType("__main__")
    main.__file__ = script.path
    sys.modules["__main__"] = main
    lines = script.source.splitlines(keepends=True)
    linecache.cache[script.path] = (len(script.source), None, lines, script.path)  # for tracebacks
    try:
        exec(compile(script.source, script.path, "exec"), main.__dict__)  # noqa: S102 - the person's own program
    except ModuleNotFoundError:
        if not installed.points(COMPAT):
            print(f"No stand-ins for other libraries are installed. {installed.reinstall()}", file=sys.stderr)
        raise


def is_place_flag(name: str) -> bool:
    """Whether a script that has a flag of this name asks for its place: TensorFlow's own programs called them so."""
    name = name.replace("-", "_")
    return name in ("job_name", "task_index", "task_id", "cluster_spec") or name.endswith("_hosts")


def place_arguments(flags: Iterable[str], spec: ClusterSpec, job: str, index: int) -> list[str]:
    """``--flag=value`` for each of the flags; ``ps_hosts`` and its like only for jobs that the cluster has."""
    values = {"job_name": job, "task_index": str(index), "task_id": str(index), "cluster_spec": spec.as_flag()}
    values |= {f"{name}_hosts": ",".join(tasks.values()) for name, tasks in spec.jobs.items()}
    places = {flag: values.get(flag.replace("-", "_")) for flag in flags}
    return [f"--{flag}={value}" for flag, value in places.items() if value is not None]


def offer_stand_ins() -> None:
    """A program for another library, such as Horovod, finds what stands in for it where that is not installed.

    The stand-ins are above this room, and of other packages too: each entry point is a function that has the names
    found when they are imported, and imports nothing before.
    """
    for name, point in installed.points(COMPAT).items():
        try:
            point.load()()
        except Exception as error:  # most programs do not ask for it
            print(f"Nothing stands in for {name}: {type(error).__name__}: {error}", file=sys.stderr)
