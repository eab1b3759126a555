"""Sending a process on an errand: the server imports no TensorFlow, and what takes seconds must not hold it up.

``schema.errand`` is the process's side. Whoever waits may give up: then it ends, with all that it has started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import Any, TypeVar

from .. import errors
from ..errors import DtfError, InvalidInput, Unavailable
from ..schema.api import ErrorInfo
from ..schema.base import decode_json, encode_json
from ..schema.errand import REFUSED

T = TypeVar("T")

END_GRACE_S = 3.0
"""After SIGTERM, until SIGKILL."""


async def send(module: str, argument: Any, answer: type[T], *words: str) -> T:
    """Have ``python -m module words...`` answer; cancelling this ends it.

    Raises the DtfError that it raised, and Unavailable, with its last words, if it died.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3")},
    )
    try:
        out, err = await process.communicate(encode_json(argument))
    finally:
        await _end(process)
    if process.returncode == 0:
        return decode_json(out, answer)
    if process.returncode == REFUSED:
        info = decode_json(out, ErrorInfo)
        if info.error == InvalidInput.__name__:
            raise InvalidInput(info.message, field=info.field)
        raise getattr(errors, info.error, DtfError)(info.message)
    lines = err.decode(errors="replace").strip().splitlines()
    raise Unavailable(lines[-1] if lines else f"It ended with status {process.returncode} and said nothing")


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the process, if it has not ended, and what is left of its group."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), END_GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
