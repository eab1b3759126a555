"""What a run has on a host: reserved ports, a directory, the program that was sent here, its tasks."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path

from ...errors import Unavailable
from ...schema import private
from ...schema.room import refusal
from ..machine import meeting_place
from ..machine.meeting_place import MeetingPlace
from .host_task import HostTask

ADVICE = "set TMPDIR before the cluster is started"


class HostRun:
    """One run here. ``tasks`` are by their names, ``ended`` are the ids of those that have.

    ``before``: the attempt before, of which tasks have come here whose directories are still there.
    """

    def __init__(self, directory: Path, shared: Path, before: HostRun | None = None) -> None:
        self.directory = directory
        self.shared = shared
        self.tasks: dict[str, HostTask] = {}
        self.ended: set[str] = set()
        self._before = before
        self._ports: dict[str, socket.socket] = {}
        self._received: MeetingPlace | None = None

    @property
    def alive(self) -> list[HostTask]:
        """The tasks that have not ended."""
        return [task for task in self.tasks.values() if task.id not in self.ended]

    def reserve(self, places: Iterable[str], address: str) -> dict[str, str]:
        """Bind a port for each place at ``address``, with SO_REUSEPORT. Returns each place's endpoint.

        They stay bound until the run is cleared up: nobody else gets them before the task binds them too.
        """
        for place in places:
            holder = socket.socket(socket.AF_INET6 if address.startswith("[") else socket.AF_INET)
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            holder.bind(("", 0))
            self._ports[place] = holder
        return {place: f"{address}:{holder.getsockname()[1]}" for place, holder in self._ports.items()}

    def take(self, at: int, data: bytes) -> tuple[str, str]:
        """A piece of the run's program. Returns the directory that it is in, and its word. Raises Unavailable."""
        try:
            if self._received is None:
                self._received = MeetingPlace(private.make_dir(self.directory))
                os.close(meeting_place.create(self._received.directory))
            _append(self._received.program, at, data)
        except OSError as error:
            raise Unavailable(refusal(self.directory, "The program", error, advice=ADVICE)) from None
        return str(self._received.directory), self._received.word

    def give_back_ports(self) -> None:
        """Nobody listens there for the others any more."""
        for holder in self._ports.values():
            with contextlib.suppress(OSError):
                holder.close()
        self._ports.clear()

    def clear_up(self) -> None:
        """Give back its ports and directories; what tasks share as the last host of this machine that has some."""
        self.give_back_ports()
        if self._before is not None:
            self._before.clear_up()
        shutil.rmtree(self.directory, ignore_errors=True)
        if not any(self.directory.parent.glob(f"{self.shared.name}-*")):
            shutil.rmtree(self.shared, ignore_errors=True)


def _append(path: Path, at: int, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.lseek(descriptor, at, os.SEEK_SET)
        meeting_place.write(descriptor, data)
    finally:
        os.close(descriptor)
