"""The exceptions that jupyter_dtf raises deliberately.

::

    DtfError
     ├── InvalidInput (ValueError)     a value is invalid; names the field, the rule and the value       400
     ├── NotFound (LookupError)        there is no cluster, run or template with that name               404
     ├── Conflict                      the current state does not allow a valid request                  409
     │    └── IllegalTransition        a state machine has no such transition
     ├── Unavailable                   a required cluster, package or device is missing                  503
     │    ├── ClusterLost              the cluster no longer responds
     │    └── GangIncomplete           not all tasks of a run can start, so none is started
     └── RunError
          ├── RunFailed                user code or a process failed; carries the task's traceback
          ├── ModelDiffers             the trained model computes different outputs here than in its task
          └── RunStopped               the run was stopped before it finished

``handlers/request_guard.py`` maps each of them to its HTTP status.
"""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType


class DtfError(Exception):
    """Base class of all exceptions that this package raises deliberately."""

    ag_pass_through = True
    """Makes TensorFlow's AutoGraph re-raise this exception unchanged from a ``tf.function``."""

    def _render_traceback_(self) -> list[str]:
        """Return the traceback for IPython: the caller's own lines and the message, without this package's frames."""
        return [*_callers_lines(self.__traceback__), f"{type(self).__name__}: {self}"]


def _callers_lines(trace: TracebackType | None) -> list[str]:
    """Format the caller's frames (the notebook cell and its functions) up to the call into this package."""
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
    """A value is invalid. The message states the rule and, in most cases, the received value.

    Attributes:
        field: The dotted path of the invalid value, such as ``"restart.max_restarts"``; empty if the whole input is
            invalid.
    """

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class NotFound(DtfError, LookupError):
    """There is no cluster, run, checkpoint or template with that name."""


class Conflict(DtfError):
    """The request is valid, but the current state does not allow it."""


class IllegalTransition(Conflict):
    """The requested transition does not exist in the state machine."""


class Unavailable(DtfError):
    """A required resource (a cluster, a package or a device) is not available.

    Attributes:
        task: The task that requires the resource, such as ``"worker:1"``; empty if no single task requires it.
    """

    def __init__(self, message: str, *, task: str = "") -> None:
        super().__init__(message)
        self.task = task


class ClusterLost(Unavailable):
    """The cluster no longer responds."""


class GangIncomplete(Unavailable):
    """Not all tasks of a run can start, so none is started. The message names those that cannot start."""


class RunError(DtfError):
    """A run did not succeed.

    Attributes:
        run_id: The id of the run; ``dtf.run(error.run_id)`` returns it.
    """

    def __init__(self, message: str, *, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id

    def _render_traceback_(self) -> list[str]:
        """Return the traceback for IPython: the message with the task's traceback, without this package's frames."""
        return [f"{type(self).__name__}: {self}"]


class RunFailed(RunError):
    """User code or a process of the run failed.

    Attributes:
        run_id: The id of the run.
        task: The task that failed first, such as ``"worker:1"``.
        traceback: The formatted traceback of that task; empty if its process died without one.
    """

    def __init__(self, message: str, *, run_id: str = "", task: str = "", traceback: str = "") -> None:
        super().__init__(message if not traceback else f"{message}\n\n{traceback.rstrip()}")
        self.run_id = run_id
        self.task = task
        self.traceback = traceback


class ModelDiffers(RunError):
    """The trained model computes different outputs here than in the task that trained it.

    The model has the trained weights, but something else that affects its computation was not transferred.
    """


class RunStopped(RunError):
    """The run was stopped before it finished."""
