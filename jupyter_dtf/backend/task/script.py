"""A script as a program: every task runs it as ``python script.py`` would, and it is told where it is."""

from __future__ import annotations

import importlib
import linecache
import os
import sys
import types
from collections.abc import Iterable

from ...schema.base import Struct
from ...schema.cluster import ClusterSpec
from .context import Context


class Script(Struct):
    """A script that is ready to travel."""

    path: str
    """Where it is; its directory is where it finds modules beside it."""
    source: str
    arguments: list[str]
    """What follows its name on the command line."""
    place_flags: list[str]
    """The flags by which it asks for its place, such as ``task_index``; spelled as the script does."""


def run(script: Script, ctx: Context) -> None:
    """Run the script as ``__main__`` in this process."""
    flags = place_arguments(script.place_flags, ctx.cluster_spec, ctx.job_name, ctx.task_index)
    sys.argv = [script.path, *flags, *script.arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script.path)))
    _offer_horovod()
    main = types.ModuleType("__main__")
    main.__file__ = script.path
    sys.modules["__main__"] = main
    lines = script.source.splitlines(keepends=True)
    linecache.cache[script.path] = (len(script.source), None, lines, script.path)  # for tracebacks
    exec(compile(script.source, script.path, "exec"), main.__dict__)  # noqa: S102 - the person's own program


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


def _offer_horovod() -> None:
    """A program for Horovod finds its surface under Horovod's name where Horovod itself is not installed."""
    # By its name: it stands above this room, and no program but a script needs it here.
    importlib.import_module("jupyter_dtf.compat.horovod").install_as_horovod()
