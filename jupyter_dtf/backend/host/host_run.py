"""The part of a run on one host: reserved ports, a directory, the program that was sent here, and tasks."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path

from ...errors import Unavailable
from ...schema import private_files
from ...schema.disk_space import refusal
from ..machine import shared_directory
from ..machine.shared_directory import SharedDirectory
from .host_task import HostTask

GIVEN_UP = "The run was abandoned before its tasks were started"
ADVICE = "set TMPDIR before the cluster is started"


class HostRun:
    """One run on this host. ``tasks`` is keyed by name; ``ended`` holds the ids of tasks that have ended.

    ``before`` is the previous attempt, if tasks continue from it: their directories are still in use.
    """

    def __init__(self, directory: Path, shared: Path, before: HostRun | None = None) -> None:
        self.directory = directory
        self.shared = shared
        self.tasks: dict[str, HostTask] = {}
        self.ended: set[str] = set()
        self._before = before
        self._ports: dict[str, socket.socket] = {}
        self._received: SharedDirectory | None = None
        self._is_over = False

    @property
    def alive(self) -> list[HostTask]:
        """The tasks that have not ended."""
        return [task for task in self.tasks.values() if task.id not in self.ended]

    def reserve(self, places: Iterable[str], address: str) -> dict[str, str]:
        """Bind a port for each place at ``address``, with SO_REUSEPORT. Returns the endpoint of each place.

        The ports stay bound until the run is cleaned up, so that no other process gets them before the task binds them.
        """
        for place in places:
            holder = socket.socket(socket.AF_INET6 if address.startswith("[") else socket.AF_INET)
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            holder.bind(("", 0))
            self._ports[place] = holder
        return {place: f"{address}:{holder.getsockname()[1]}" for place, holder in self._ports.items()}

    def take(self, at: int, data: bytes) -> tuple[str, str]:
        """Store a chunk of the run's program at offset ``at``.

        Returns:
            The directory of the program, and the secret with which other hosts can verify that they can access it.

        Raises:
            Unavailable: If the chunk cannot be written, or the run has been cleaned up, even in the meantime.
        """
        if self._is_over:
            raise Unavailable(GIVEN_UP)
        try:
            if self._received is None:
                self._received = SharedDirectory(private_files.make_dir(self.directory))
                os.close(shared_directory.create(self._received.directory))
            _append(self._received.program, at, data)
        except OSError as error:
            why = GIVEN_UP if self._is_over else refusal(self.directory, "The program", error, advice=ADVICE)
            raise Unavailable(why) from None
        finally:
            if self._is_over:
                self._remove_program()
        if self._is_over:
            raise Unavailable(GIVEN_UP)
        return str(self._received.directory), self._received.word

    def give_back_ports(self) -> None:
        """Close the reserved ports."""
        for holder in self._ports.values():
            with contextlib.suppress(OSError):
                holder.close()
        self._ports.clear()

    def clear_up(self) -> None:
        """Release the ports and directories, including the shared one if no other host on the machine still uses it."""
        self.give_back_ports()
        if self._before is not None:
            self._before.clear_up()
        self._is_over = True
        shutil.rmtree(self.directory, ignore_errors=True)
        self._remove_shared()

    def _remove_program(self) -> None:
        """Remove what ``take`` has created in its thread after ``clear_up``, but nothing of a newer run here."""
        if self._received is not None:
            self._received.remove()
        with contextlib.suppress(OSError):  # it is not empty
            self.directory.rmdir()
        self._remove_shared()

    def _remove_shared(self) -> None:
        if not any(self.directory.parent.glob(f"{self.shared.name}-*")):
            shutil.rmtree(self.shared, ignore_errors=True)


def _append(path: Path, at: int, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.lseek(descriptor, at, os.SEEK_SET)
        shared_directory.write(descriptor, data)
    finally:
        os.close(descriptor)
