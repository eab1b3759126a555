"""Where a process runs: its machine, the machine's current boot, and its namespace of process ids.

A process id is meaningful only together with this information. A home directory may be shared by several machines and
containers, so a process id that is stored there must be accompanied by it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from pathlib import Path

from ...schema.base import PeerStruct

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MACHINE = Path("/etc/machine-id")
_NO_NAMES = ("", "localhost")


class Whereabouts(PeerStruct):
    """Where a process runs. All fields are empty if that was not recorded."""

    host: str = ""
    """The host name."""
    machine: str = ""
    """The identifier of the operating system's installation, from ``/etc/machine-id``. Copies of an image share it."""
    boot: str = ""
    """The random identifier of the machine's current boot. Empty outside Linux."""
    pids: str = ""
    """The namespace of process ids, of which each container has its own. Empty outside Linux."""

    @property
    def are_known(self) -> bool:
        return bool(self.host or self.boot)

    def sees(self, other: Whereabouts) -> bool:
        """Return whether process ids mean the same processes in both places."""
        if self.boot or other.boot:
            return (self.boot, self.pids) == (other.boot, other.pids)
        return (self.host, self.machine) == (other.host, other.machine)

    def is_later_boot_of(self, other: Whereabouts) -> bool:
        """Return whether this is the same machine as ``other``, which has been restarted since.

        If so, all processes that ran there have ended. The host name distinguishes machines that share a home
        directory.
        """
        if self.host.partition(".")[0] in _NO_NAMES or not (self.boot and other.boot):
            return False
        return (self.host, self.machine) == (other.host, other.machine) and self.boot != other.boot


def here() -> Whereabouts:
    """Return where this process runs."""
    pids = ""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # /proc is not mounted, or no more files can be opened
            pids = os.readlink("/proc/self/ns/pid")
    return Whereabouts(host=socket.gethostname(), machine=_line(_MACHINE), boot=_line(_BOOT), pids=pids)


def _line(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
