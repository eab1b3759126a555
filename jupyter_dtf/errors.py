"""Every error that jupyter_dtf raises on purpose.

::

    DtfError
     ├── InvalidInput (ValueError)     a value breaks a rule; says which field, the rule and the value   400
     ├── NotFound (LookupError)        no cluster, run or template of that name                          404
     ├── Conflict                      right in itself, but not in the present state                     409
     │    └── IllegalTransition        a life cycle was asked to take a step it does not have
     ├── Unavailable                   a part that is needed is not there                                503
     │    ├── ClusterLost              the cluster does not answer any more
     │    └── GangIncomplete           some tasks of a run cannot start, so none does
     └── RunError
          ├── RunFailed                user code or a process failed; carries the task's own traceback
          ├── ModelDiffers             the trained model answers otherwise here than in the task that trained it
          └── RunStopped               somebody stopped the run before its end

The HTTP status of each is given in one place, ``handlers/request_guard.py``.
"""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType


class DtfError(Exception):
    """Base of all errors raised on purpose by this package."""

    ag_pass_through = True
    """To TensorFlow's autograph: raise this as it is also from a ``tf.function``, not an error of your own."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the caller's own lines, then the sentence, without the frames of this package."""
        return [*_callers_lines(self.__traceback__), f"{type(self).__name__}: {self}"]


def _callers_lines(trace: TracebackType | None) -> list[str]:
    """The lines of a cell and of the caller's functions that led into this package."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    theirs = tuple(
        os.path.join(os.path.dirname(module.__file__), "")
        for module in (ipython, sys.modules.get("ipykernel"))
        if module is not None and module.__file__
    )
    lines = []
    for frame in traceback.extract_tb(trace):
        if frame.filename.startswith(_HERE):
            break
        if theirs and frame.filename.startswith(theirs):
            continue
        named = shell.compile.format_code_name(frame.filename) if shell is not None else None
        where = f"{named[0]} {named[1]}" if named else f"File {frame.filename}"
        lines.append(f"{where}, line {frame.lineno}\n    {frame.line}")
    return lines


_HERE = os.path.join(os.path.dirname(__file__), "")


class InvalidInput(DtfError, ValueError):
    """A value breaks a rule. ``field`` is the dotted path of the value, or empty when the whole is meant."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class NotFound(DtfError, LookupError):
    """There is no cluster, run or template of that name."""


class Conflict(DtfError):
    """The request is well-formed but contradicts the present state."""


class IllegalTransition(Conflict):
    """A life cycle was asked to take a step that it does not have."""


class Unavailable(DtfError):
    """A part that is needed (a cluster, a package, a device) is not there. ``task`` names the one that needs it."""

    def __init__(self, message: str, *, task: str = "") -> None:
        super().__init__(message)
        self.task = task


class ClusterLost(Unavailable):
    """The cluster does not answer any more."""


class GangIncomplete(Unavailable):
    """Some tasks of a run cannot start, so none does. The message names them."""


class RunError(DtfError):
    """A run did not end well. ``run_id`` names it."""

    def __init__(self, message: str, *, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: what happened in the task, not the frames that were waiting for it."""
        return [f"{type(self).__name__}: {self}"]


class RunFailed(RunError):
    """User code or a process failed.

    ``task`` is the failing task (``worker:1``), ``traceback`` its formatted traceback, empty if the process died
    without one.
    """

    def __init__(self, message: str, *, run_id: str = "", task: str = "", traceback: str = "") -> None:
        super().__init__(message if not traceback else f"{message}\n\n{traceback.rstrip()}")
        self.run_id = run_id
        self.task = task
        self.traceback = traceback


class ModelDiffers(RunError):
    """The trained model answers otherwise here than in the task that trained it. It holds the trained weights."""


class RunStopped(RunError):
    """Somebody stopped the run before its end."""
