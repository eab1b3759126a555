"""An SSH connection to a host, with the keeper at its other end (``ssh_keeper``)."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import json
import logging
import os
import shlex
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import asyncssh

from ...errors import InvalidInput
from . import ssh_host_keys, ssh_keeper
from .ssh_entries import HostEntry

logger = logging.getLogger(__name__)

CONNECT_S = 8.0
"""The timeout for connecting, and for the first message from Python on the host."""
BEAT_S = 5.0
SILENT_S = 60.0
"""A keeper that has received nothing for this many seconds ends everything that it has started."""
KEEPALIVES = 6
END_S = 7.0
"""The timeout for the keeper to end everything. It is longer than the keeper needs."""
_TAIL = 4_000
_BOOTSTRAP = 'import base64,os;exec(base64.b64decode(os.fdopen(0,"rb",0,closefd=False).readline()))'


class HostProblem(Exception):
    """Raised when a host cannot be used. The message gives the reason and the host's last output; clusters show it."""


class Keeper:
    """The connection to the keeper on one host. ``hello`` is the keeper's description of the host."""

    def __init__(self, entry: HostEntry, connection: Any, process: Any) -> None:
        self.entry = entry
        self.hello: dict[str, Any] = {}
        self._connection = connection
        self._process = process
        self._said = b""
        self._listening = asyncio.create_task(self._listen())
        self._beating = asyncio.create_task(self._beat())

    @classmethod
    async def open(cls, entry: HostEntry, options: Mapping[str, Any], step: Callable[[str], None]) -> Keeper:
        """Connect to a host and start the keeper. ``step(what)`` is called with each step. Raises HostProblem."""
        step("connecting")
        connection = await _connect(entry, options)
        keeper = None
        try:
            step("starting Python")
            process = await connection.create_process(command(options), encoding=None)
            keeper = cls(entry, connection, process)
            with contextlib.suppress(OSError, asyncssh.Error):  # it may have already ended; the reason is read below
                process.stdin.write(base64.b64encode(_program()) + b"\n")
            await asyncio.wait_for(keeper._greet(), CONNECT_S)
        except BaseException as error:
            await (keeper.close(at_once=True) if keeper is not None else _end(connection))
            if isinstance(error, asyncio.TimeoutError):
                raise HostProblem(f"Python there did not respond within {CONNECT_S:g} s") from None
            if isinstance(error, (OSError, asyncssh.Error)):
                raise HostProblem(f"No program can be started there: {error}") from None
            raise
        return keeper

    @property
    def local_address(self) -> str:
        """This machine's address on the connection to the host."""
        return str(self._connection.get_extra_info("sockname")[0])

    async def run(self, module: str, settings: Any, environment: Mapping[str, str]) -> str:
        """Run a module on the host, and wait until it has ended. Returns its last output. Raises HostProblem."""
        asked = {"module": module, "settings": settings, "environment": dict(environment), "silent_s": SILENT_S}
        self._process.stdin.write(json.dumps({"start": asked}).encode() + b"\n")
        while (message := await self._next()) is not None:
            if "ended" in message:
                return _last_of(str(message["words"]))
        raise HostProblem(f"the connection was closed{self._words()}")

    async def close(self, at_once: bool = False) -> None:
        """End everything that was started on the host, wait for this unless ``at_once``, and close the connection."""
        with contextlib.suppress(OSError, asyncssh.Error, asyncio.TimeoutError):
            self._process.stdin.write_eof()
            if not at_once:
                await asyncio.wait_for(self._process.wait_closed(), END_S)
        for task in (self._listening, self._beating):
            task.cancel()
        await _end(self._connection)

    # -- inside -------------------------------------------------------------------------------------------------

    async def _greet(self) -> None:
        while (message := await self._next()) is not None:
            if "hello" in message:
                self.hello = message["hello"]
                break
        else:
            await self._listening  # read all remaining output
            raise HostProblem(f"Python could not be started there{self._words()}")
        if wrong := self.hello["problem"]:
            raise HostProblem(f"{self.hello['program']} cannot be used there: {wrong}")

    async def _next(self) -> dict[str, Any] | None:
        """Return the keeper's next message, skipping output of the login shell; None if the keeper has ended."""
        with contextlib.suppress(OSError, asyncssh.Error):
            while line := await self._process.stdout.readline():
                with contextlib.suppress(ValueError):
                    if isinstance(message := json.loads(line), dict):
                        return message
        return None

    async def _listen(self) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            while data := await self._process.stderr.read(_TAIL):
                self._said = (self._said + data)[-_TAIL:]

    async def _beat(self) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            while True:
                await asyncio.sleep(BEAT_S)
                self._process.stdin.write(b"\n")

    def _words(self) -> str:
        said = _last_of(self._said.decode(errors="replace"))
        return f": {said}" if said else ""


async def _connect(entry: HostEntry, options: Mapping[str, Any]) -> Any:
    where = f"{entry.host} port {entry.port}" if entry.port else entry.host
    try:
        if options["host_keys"] != "strict":
            await asyncio.wait_for(ssh_host_keys.accept(entry, options), CONNECT_S)
        ssh_host_keys.check_known([entry], options)
        made = ssh_host_keys.connect_options(entry, options)
        opening = asyncssh.connect(**made, keepalive_interval=BEAT_S, keepalive_count_max=KEEPALIVES)
        return await asyncio.wait_for(opening, CONNECT_S)
    except InvalidInput as error:
        raise HostProblem(str(error)) from None
    except (asyncio.TimeoutError, TimeoutError):
        raise HostProblem(f"{where} did not respond within {CONNECT_S:g} s") from None
    except asyncssh.HostKeyNotVerifiable:
        raise HostProblem(
            f"{where} presents a host key that differs from the known one. The host may have been reinstalled, or "
            "another machine may impersonate it. Compare the fingerprint; `ssh-keygen -R` removes the old key"
        ) from None
    except asyncssh.PermissionDenied as error:
        what = f"the key in {options['key_file']}" if options["key_file"] else "the agent's keys and those in ~/.ssh"
        raise HostProblem(
            f"{where} does not accept {what}: {error.reason}. `{entry.command}` must work without a prompt"
        ) from None
    except socket.gaierror:
        raise HostProblem(f"There is no host named {entry.host}") from None
    except (OSError, asyncssh.Error) as error:
        number = error.errno if isinstance(error, OSError) else None
        reason = os.strerror(number) if number else str(error)
        raise HostProblem(f"{where} cannot be reached: {reason}") from None


async def _end(connection: Any) -> None:
    connection.close()
    with contextlib.suppress(asyncio.TimeoutError, OSError, asyncssh.Error):
        await asyncio.wait_for(connection.wait_closed(), 1.0)


def command(options: Mapping[str, Any]) -> str:
    """Return a command for any login shell. It replaces itself with Python, which reads its program from standard
    input.
    """
    program = shlex.quote(options["python"] or sys.executable)
    script = [f"p={program}"]
    if options["python"]:
        script.append('case "$p" in "~/"*) p="$HOME/${p#"~/"}";; esac')
        script.append('if [ -d "$p" ]; then p="$p/bin/python"; fi')
    else:
        script.append('[ -x "$p" ] || p=python3')
    if options["directory"]:
        script.append(f"d={shlex.quote(options['directory'])}")
        script.append('case "$d" in "~") d="$HOME";; "~/"*) d="$HOME/${d#"~/"}";; esac')
        script.append('cd "$d" || exit 1')
    script.append(f'exec "$p" -c {shlex.quote(_BOOTSTRAP)}')
    return f"exec sh -c {shlex.quote('; '.join(script))}"


@functools.cache
def _program() -> bytes:
    return Path(ssh_keeper.__file__).read_bytes() + b"\nkeep()\n"


def _last_of(text: str) -> str:
    """Return the last lines of output, joined into one."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return " / ".join(lines[-3:])[-_TAIL:]
