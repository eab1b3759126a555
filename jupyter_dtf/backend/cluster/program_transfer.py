"""A run's program in the controller: kept in memory if it is small, otherwise in a file.

A large program arrives on a connection of its own (``dtf_send``), on which its sender writes one of the following:

* ``{"done": bytes}`` repeatedly while it writes the file itself, then ``{"at": index, "word": word}``, if it can access
  one of the ``places`` offered, which means that it is on this machine. The program's arrays are then copied only once.
* ``{"data": bytes}`` repeatedly, each answered by ``{"ok": bytes so far}``, if it cannot access any of them.
* ``{"failed": why}``, if it cannot continue.

Each host is asked whether it can access the file. If not, the file is sent to one host of each machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import psutil
from distributed.comm.core import Comm

from ...errors import Unavailable
from ...schema.disk_space import refusal
from ...schema.events import Progressed
from ...schema.run import Progress, RunState
from ..machine import shared_directory
from ..machine.shared_directory import SharedDirectory, answer
from ..records.apply_event import BYTES
from .active_run import Run

CHUNK_BYTES = 4 << 20
"""The size of the chunks sent to a host that cannot access the file."""
TELL_S = 0.3
"""The minimum interval between progress reports, which are also at least one percent apart."""
_CGROUP = Path("/sys/fs/cgroup")


class ProgramTransfer:
    """A run's program, present or still arriving. Call ``remove`` when the run has ended."""

    def __init__(self, payload: bytes = b"") -> None:
        self.size = len(payload)
        self._payload = payload
        self._places: list[SharedDirectory] = []
        self._place: SharedDirectory | None = None
        self._settled = asyncio.Event()
        self._settled.set()
        self._failure = ""

    @classmethod
    def to_come(cls, size: int, memory: Callable[[], Path], disk: Callable[[], Path]) -> ProgramTransfer:
        """Create the transfer of a program of ``size`` bytes that has not arrived yet.

        Args:
            size: The size in bytes.
            memory: Returns a directory in memory, which is used if enough memory is free.
            disk: Returns a directory on disk.

        Raises:
            Unavailable: If no file can be created.
        """
        self = cls()
        self.size = size
        self._settled.clear()
        try:
            if _has_plenty(memory(), size):
                self._places.append(SharedDirectory(memory()))
            self._places.append(SharedDirectory(disk()))
        except OSError as error:
            self.remove()
            raise Unavailable(refusal(disk(), "The program", error, advice="set TMPDIR")) from None
        return self

    @property
    def places(self) -> list[str]:
        """The directories that are offered to the sender, best first.

        If it can access one of them, it may write the file there itself.
        """
        return [str(place.directory) for place in self._places]

    def remove(self) -> None:
        """Delete the program."""
        for place in self._places:
            place.remove()
        self._payload = b""

    # -- arrival ------------------------------------------------------------------------------------------------

    async def arrived(self) -> None:
        """Wait until the program has arrived, or the run has ended. Raises Unavailable if it will not arrive."""
        await self._settled.wait()
        if self._failure:
            raise Unavailable(self._failure)

    async def receive(self, comm: Comm, run: Run) -> None:
        """Receive the program from its sender, unless the run ends first."""
        coming = asyncio.create_task(self._receive(comm, run))
        ended = asyncio.create_task(run.ended.wait())
        try:
            await asyncio.wait({coming, ended}, return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                coming.result()
        except (Unavailable, OSError) as error:
            self._failure = str(error)
        except Exception as error:
            self._failure = f"The program could not be received: {type(error).__name__}: {error}"
        finally:
            for task in (coming, ended):
                task.cancel()
            await asyncio.gather(coming, ended, return_exceptions=True)
            if self._place is None:  # free the disk space before the run is reported as failed
                await asyncio.to_thread(self.remove)
            self._settled.set()
            with contextlib.suppress(OSError):
                await comm.write({"ok": self.size} if self._place is not None else {"over": self._failure})

    async def _receive(self, comm: Comm, run: Run) -> None:
        told = _Told(run, self.size)
        told.tell(0)
        done, descriptor = 0, -1
        try:
            while self._place is None:
                message = await self._next(comm)
                if "failed" in message:
                    raise Unavailable(str(message["failed"]))
                if "at" in message:
                    self._check(int(message["at"]), str(message["word"]))
                elif "data" in message:
                    if descriptor < 0:
                        descriptor = self._create()
                    data = memoryview(message["data"])
                    done += len(data)
                    await asyncio.to_thread(self._write, descriptor, data)
                    await comm.write({"ok": done})
                    if done >= self.size:
                        self._place = self._places[0]
                else:
                    done = int(message["done"])
                told.tell(done)
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        told.is_over()

    async def _next(self, comm: Comm) -> dict[str, Any]:
        try:
            message: dict[str, Any] = await comm.read()
        except OSError:
            raise Unavailable("the client disconnected while it was sending the program and its data") from None
        return message

    def _create(self) -> int:
        if len(self._places) > 1 and not _has_plenty(self._places[0].directory, self.size):
            self._places.pop(0).remove()  # the memory has been used up since this directory was offered
        shared_directory.discard(self._places[0].directory)
        return shared_directory.create(self._places[0].directory)

    def _write(self, descriptor: int, data: memoryview) -> None:
        try:
            shared_directory.write(descriptor, data)
        except OSError as error:
            where = self._places[0].directory
            raise Unavailable(refusal(where, "The program", error, needed=self.size, advice="set TMPDIR")) from None

    def _check(self, index: int, word: str) -> None:
        """Accept a file that a sender has written. Raises Unavailable unless the sender can access the directory."""
        place = self._places[index] if 0 <= index < len(self._places) else None
        if place is None or not place.is_seen_by(word):
            raise Unavailable("The sender cannot access the directory in which it claims to have written the program")
        found = place.program.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size != self.size or found.st_uid != os.getuid():
            raise Unavailable(f"The program must be a file of {self.size} bytes, got one of {found.st_size}")
        self._place = place

    # -- transfer to hosts --------------------------------------------------------------------------------------

    async def hand_over(self, rpc: Callable[[str], Any], run: Run, hosts: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """Make the program available to hosts.

        Args:
            rpc: ``rpc(address)`` connects to a host.
            run: The run.
            hosts: ``(address, machine)`` of each host.

        Returns:
            The arguments of ``dtf_launch`` that specify the program, keyed by address.
        """
        place = self._place
        if place is None:
            return {address: {"payload": self._payload} for address, _ in hosts}
        by_machine: dict[str, list[str]] = {}
        for address, machine in hosts:
            by_machine.setdefault(machine, []).append(address)
        told = _Told(run, self.size)
        given: dict[str, Any] = {}
        for addresses in by_machine.values():
            seen = [(str(place.directory), place.word)]
            for address in addresses:
                given[address] = {"program": await self._hand_to(rpc(address), run.id, seen, told)}
        told.is_over()
        return given

    async def _hand_to(self, host: Any, run_id: str, seen: list[tuple[str, str]], told: _Told) -> str:
        """Return the program's path on one host. If the host cannot access any path in ``seen``, send it the program.

        The directory of a program that was sent is added to ``seen``.
        """
        for directory, word in seen:
            challenge = secrets.token_hex(16)
            if await host.dtf_sees(directory=directory, challenge=challenge) == answer(word, challenge):
                return str(Path(directory) / shared_directory.PROGRAM)
        assert self._place is not None
        at = 0
        file = await asyncio.to_thread(self._place.program.open, "rb")
        try:
            while data := await asyncio.to_thread(file.read, CHUNK_BYTES):
                if (taken := await host.dtf_put(run_id=run_id, at=at, data=data)) is None:
                    raise Unavailable("it is shutting down")  # a closing Dask worker no longer has our operations
                directory, word = taken
                at += len(data)
                told.tell(at)
        finally:
            file.close()
        seen.append((directory, word))
        return str(Path(directory) / shared_directory.PROGRAM)


class _Told:
    """Records in a run's events how much of its program has been sent."""

    def __init__(self, run: Run, size: int) -> None:
        self._run = run
        self._size = size
        self._last = time.monotonic()
        self._done = 0
        self._has_told = False

    def tell(self, done: int) -> None:
        """Record that ``done`` bytes have been sent, unless this would follow the last record too closely."""
        now = time.monotonic()
        enough = now - self._last >= TELL_S and (done - self._done) * 100 >= self._size
        if enough or not self._has_told:
            self._say(Progress(done=done, total=self._size, unit=BYTES))
            self._last, self._done, self._has_told = now, done, True

    def is_over(self) -> None:
        """Reset the progress. From now on, the program reports its own progress."""
        if self._has_told:
            self._say(Progress())

    def _say(self, progress: Progress) -> None:
        if self._run.info.state in (RunState.PENDING, RunState.LAUNCHING):  # a restarting run has its own progress
            self._run.record(Progressed(time=time.time(), progress=progress))


def _has_plenty(directory: Path, size: int) -> bool:
    """Return whether ``2 * size`` bytes of memory are available, so that enough is left for tasks and all-reduce."""
    try:
        room = os.statvfs(directory)
        return min(room.f_bavail * room.f_frsize, psutil.virtual_memory().available, _left_of_limit()) >= 2 * size
    except (OSError, ValueError):
        return False


def _left_of_limit() -> int:
    """Return how many bytes this process's control group may still use; without a limit, the machine's whole memory."""
    try:
        limit, used = ((_CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
    except OSError:  # there is no control group, or it is of version 1
        return psutil.virtual_memory().total
    return psutil.virtual_memory().total if limit == "max" else int(limit) - int(used)


def hosts_of(planned: Sequence[Any]) -> list[tuple[str, str]]:
    """Return ``(address, machine)`` of every host of a gang, without duplicates."""
    return list(dict.fromkeys((task.host.address, task.host.machine) for task in planned))
