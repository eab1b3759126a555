"""Work that a process does for another one: an argument on standard input, the answer or the error on standard output.

``backend.errands`` is the other side.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from ..errors import DtfError
from .api import ErrorInfo
from .base import encode_json

REFUSED = 3
"""The exit status of an errand whose answer is an ErrorInfo."""
_PR_SET_PDEATHSIG = 1


def answer(work: Callable[[bytes], Any]) -> int:
    """The whole of an errand's process: ``work(standard input)``, answered. Returns the exit status.

    What the work prints goes to standard error. It ends with its parent.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    out = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        data, status = encode_json(work(sys.stdin.buffer.read())), 0
    except DtfError as error:
        field = getattr(error, "field", "")
        data, status = encode_json(ErrorInfo(message=str(error), error=type(error).__name__, field=field)), REFUSED
    with open(out, "wb") as answers:
        answers.write(data)
    return status
