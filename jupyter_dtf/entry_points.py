"""The entry points of installed packages, including this one: found by group and name, and imported by the caller.

They let a package use code above it, or outside of the project, without importing it by a string.

* ``jupyter_dtf.kinds``: classes, ``backend.kinds.base.Kind``, named as the kind; for ``backend.kinds.registry``.
* ``jupyter_dtf.subprocess_jobs``: modules that are run as processes (``schema.subprocess_job``), for
  ``backend.machine.subprocess_runner``.
* ``jupyter_dtf.compat``: functions that make the modules of another library importable, and import nothing else;
  named as the library; for ``backend.task.script_program``.
"""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points

from .errors import Unavailable

PACKAGE = "jupyter-dtf"


@functools.cache
def points(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name, cached at the first call.

    Of two with the same name, this package's own wins, or else the first on Python's path.
    """
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        if point.name not in found or is_ours(point):
            found[point.name] = point
    return found


def point(group: str, name: str) -> EntryPoint:
    """An entry point of this package. Raises Unavailable, with what to do, if it is not installed."""
    found = points(group).get(name)
    if found is None:
        raise Unavailable(f"This installation of {PACKAGE} has no {name!r} in {group}. {reinstall()}")
    return found


def is_ours(point: EntryPoint) -> bool:
    """Whether it belongs to this package."""
    return point.dist is not None and point.dist.name.lower().replace("_", "-") == PACKAGE


def reinstall() -> str:
    """What to do if the entry points do not match the source: those of a checkout are from its last installation."""
    return f"Reinstall the package: pip install {PACKAGE}, or pip install -e . in a checkout (make does it)"
