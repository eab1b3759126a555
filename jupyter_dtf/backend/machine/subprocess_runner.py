"""Runs one-off jobs in subprocesses, because the server must neither import TensorFlow nor block.

The modules of these jobs may import anything. They are found through entry points and run with ``python -m``.
``schema.subprocess_job`` implements the subprocess's side. If the caller gives up waiting, the subprocess and
everything that it has started are killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
from typing import Any, TypeVar

from ... import entry_points, errors
from ...errors import DtfError, InvalidInput, Unavailable
from ...schema.api import ErrorInfo
from ...schema.base import decode_json, encode_json
from ...schema.subprocess_job import GROUP, REFUSED
from . import children, cluster_processes

T = TypeVar("T")

_log = logging.getLogger(__name__)

END_GRACE_S = 3.0
"""The time between SIGTERM and SIGKILL in seconds."""
VARIABLE = "JUPYTER_DTF_JOB"
"""The environment variable that identifies the processes of one job, because a process id may be reused."""
_MOST_SAID = 10_000
_WAYS_OUT: dict[int, str] = {
    signal.SIGXCPU: "It exceeded its CPU time limit",
    signal.SIGKILL: "It was killed, perhaps for lack of memory",
}


async def run(job: str, argument: Any, answer: type[T], *words: str) -> T:
    """Run a job in a subprocess and return its reply. Cancelling the coroutine kills the subprocess.

    The subprocess sees no GPUs, and the working directory is not on its path.

    Args:
        job: The name of the job's entry point.
        argument: The job's argument, which is encoded as JSON and passed on standard input.
        answer: The type of the reply.
        words: Command-line arguments.

    Raises:
        Unavailable: If the subprocess ended without a reply (the message contains its last line of output), or the job
            is not installed.
        DtfError: Whatever the job itself raised.
    """
    module = entry_points.point(GROUP, job).value
    token = secrets.token_hex(8)
    process = await asyncio.create_subprocess_exec(
        *children.command(module, *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        env=children.environment(
            {
                "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3"),
                "CUDA_VISIBLE_DEVICES": "-1",
                VARIABLE: token,
            }
        ),
    )
    try:
        out, err = await process.communicate(encode_json(argument))
    finally:
        await _end(process, token)
    if process.returncode == 0:
        return decode_json(out, answer)
    if process.returncode == REFUSED:
        info = decode_json(out, ErrorInfo)
        if info.error == InvalidInput.__name__:
            raise InvalidInput(info.message, field=info.field)
        raise getattr(errors, info.error, DtfError)(info.message)
    said = err.decode(errors="replace").strip()
    _log.warning("%s exited with status %s. Its output was:\n%s", module, process.returncode, said[-_MOST_SAID:])
    raise Unavailable(_last_words(module, process.returncode or 0, said))


def _last_words(module: str, status: int, said: str) -> str:
    """Return sentences about the end of a process that gave no reply."""
    what = f"The process {module.rpartition('.')[2]} gave no reply."
    if status < 0:
        return f"{what} {_WAYS_OUT.get(-status) or f'It was ended by signal {-status}'}"
    lines = said.splitlines()
    return f"{what} It exited with status {status}{f': {lines[-1]:.500}' if lines else ' without output'}"


async def _end(process: asyncio.subprocess.Process, token: str) -> None:
    """Terminate the process, if it is still running, and kill what is left of everything that it has started."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), END_GRACE_S)
    await asyncio.to_thread(cluster_processes.end, token, variable=VARIABLE)
    await process.wait()
