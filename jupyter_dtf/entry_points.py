"""Finds entry points of installed packages, including this one, by group and name. The caller imports them.

With entry points, a package can use code of a higher layer, or from outside the project, without importing it by name.

* ``jupyter_dtf.kinds``: subclasses of ``backend.kinds.base.Kind``, named after the kind; used by
  ``backend.kinds.registry``.
* ``jupyter_dtf.subprocess_jobs``: modules that are run as processes (``schema.subprocess_job``); used by
  ``backend.machine.subprocess_runner``.
* ``jupyter_dtf.compat``: functions that make the modules of another library importable, and import nothing else; named
  after the library; used by ``backend.task.script_program``.
"""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points

from .errors import Unavailable

PACKAGE = "jupyter-dtf"


@functools.cache
def points(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group, keyed by name. The result is cached.

    If several have the same name, this package's own entry point takes precedence, or else the first one on Python's
    path.
    """
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        if point.name not in found or is_ours(point):
            found[point.name] = point
    return found


def point(group: str, name: str) -> EntryPoint:
    """Return an entry point of this package. Raises Unavailable, which states what to do, if it is not installed."""
    found = points(group).get(name)
    if found is None:
        raise Unavailable(f"This installation of {PACKAGE} has no entry point {name!r} in {group}. {reinstall()}")
    return found


def is_ours(point: EntryPoint) -> bool:
    """Return whether an entry point belongs to this package."""
    return point.dist is not None and point.dist.name.lower().replace("_", "-") == PACKAGE


def reinstall() -> str:
    """Return advice for entry points that do not match the source.

    A checkout keeps the entry points of its last installation.
    """
    return f"Reinstall the package: pip install {PACKAGE}, or pip install -e . in a checkout (make does this)"
