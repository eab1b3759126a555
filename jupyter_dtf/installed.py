"""What installed packages, this one included, offer by entry points: found by group and name, imported by whoever asks.

So a room uses what stands above it, or outside of the project, without importing it by a string.

* ``jupyter_dtf.kinds``: classes, ``backend.kinds.base.Kind``, named as the kind; for ``backend.kinds.registry``.
* ``jupyter_dtf.errands``: modules that are run as processes (``schema.errand``), for
  ``backend.machine.errand_process``.
* ``jupyter_dtf.compat``: functions that have the modules of another library found by their names, and import nothing
  else; named as the library; for ``backend.task.script_program``.
"""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points

from .errors import Unavailable

PACKAGE = "jupyter-dtf"


@functools.cache
def points(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by their names, as they were when this process first asked.

    Of two with one name it is this package's own, or the one that Python's path finds first.
    """
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        if point.name not in found or is_ours(point):
            found[point.name] = point
    return found


def point(group: str, name: str) -> EntryPoint:
    """One that this package has itself. Raises Unavailable, with what to do, where the installation knows none."""
    found = points(group).get(name)
    if found is None:
        raise Unavailable(f"This installation of {PACKAGE} has no {name!r} in {group}. {reinstall()}")
    return found


def is_ours(point: EntryPoint) -> bool:
    """Whether this package has it, not another one."""
    return point.dist is not None and point.dist.name.lower().replace("_", "-") == PACKAGE


def reinstall() -> str:
    """What to do where the entry points are not those of this source: those of a checkout are from its last install."""
    return f"Reinstall the package: pip install {PACKAGE}, or pip install -e . in a checkout (make does it)"
