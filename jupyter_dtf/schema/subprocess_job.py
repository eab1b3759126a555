"""Jobs that run in a subprocess, with the argument on standard input and the result or error on standard output.

``backend.machine.subprocess_runner`` is the other side. A job is a module with an entry point in ``GROUP``; its name
and its request are defined here for both sides.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from ..errors import DtfError, InvalidInput
from .api import ErrorInfo
from .base import Struct, encode_json
from .design import Design
from .hosts import HostDesign

GROUP = "jupyter_dtf.subprocess_jobs"
PLACE = "place_design"
"""A job that takes a PlaceRequest and returns a Placement."""
DESCRIBE = "describe_file"
"""A job that takes a path and returns a LayerGraph."""
PROFILE = "profile_design"
"""A job that takes a MeasureRequest and returns a Calibration."""

REFUSED = 3
"""The exit status of a job whose output is an ErrorInfo."""
_PR_SET_PDEATHSIG = 1


class PlaceRequest(Struct):
    """A design, and the hosts that its kind of cluster will provide."""

    design: Design
    expected_hosts: list[HostDesign] = []


class MeasureRequest(Struct):
    """The path of a model's file, the cluster on which to measure the model, and the batch of a step."""

    path: str
    cluster: str
    batch_size: int
    microbatches: int


def answer(work: Callable[[bytes], Any]) -> int:
    """Write the result of ``work(standard input)`` to standard output. Returns the exit status.

    This is the main function of a job's process. Anything that the work prints goes to standard error. The process ends
    when its parent ends.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    out = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        data, status = encode_json(_done(work, sys.stdin.buffer.read())), 0
    except DtfError as error:
        field = getattr(error, "field", "")
        data, status = encode_json(ErrorInfo(message=str(error), error=type(error).__name__, field=field)), REFUSED
    with open(out, "wb") as answers:
        answers.write(data)
    return status


def _done(work: Callable[[bytes], Any], argument: bytes) -> Any:
    """Return the result of the work. Raises InvalidInput if there is not enough memory or stack for it."""
    try:
        return work(argument)
    except MemoryError:
        raise InvalidInput("This needs more memory than is available") from None
    except RecursionError:
        raise InvalidInput("The input is nested too deeply") from None
