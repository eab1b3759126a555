"""Messages about full or failing disks: which directory, how large it is, what is free, what to do."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from .sizes import bytes_

FULL = (errno.ENOSPC, errno.EDQUOT)
_NOTHING_BYTES = 64 << 10


def refusal(path: str | Path, what: str, error: OSError, *, needed: int = 0, advice: str = "") -> str:
    """A sentence on why ``what`` could not be written below ``path``.

    ``needed``: bytes, if known. ``advice``: what to do other than freeing space.
    """
    place = nearest(Path(path))
    reason = f"{what} cannot be written to {place}: {error.strerror or error}"
    if error.errno in FULL:
        needs = f"{bytes_(needed)} are needed, " if needed else ""
        reason += f" ({needs}{_free(place)}). Free some room"
        if place.is_relative_to("/dev/shm"):
            reason += ", or make it larger: docker run --shm-size=2g, mount -o remount,size=2g /dev/shm"
        return f"{reason}{', or ' + advice if advice else ''}"
    return f"{reason}. It has to be writable{', or ' + advice if advice else ''}"


def is_full(path: Path) -> bool:
    """Whether the disk of a directory, existing or not, is almost full."""
    try:
        return shutil.disk_usage(nearest(path)).free < _NOTHING_BYTES
    except OSError:
        return False


def nearest(path: Path) -> Path:
    """The directory itself, or its nearest existing ancestor."""
    while not path.is_dir() and path != path.parent:
        path = path.parent
    return path


def _free(place: Path) -> str:
    try:
        usage = shutil.disk_usage(place)
    except OSError:
        return "how much is free is not known"
    return f"{bytes_(usage.free)} of {bytes_(usage.total)} are free"


def allocate(descriptor: int, path: Path, count: int, what: str) -> None:
    """Allocate the first ``count`` bytes of a file that will be mapped. Raises OSError if there is not enough space.

    A mapped page that the file system cannot back ends the process with SIGBUS when it is written to.
    """
    try:
        os.posix_fallocate(descriptor, 0, count)
    except OSError as error:
        raise OSError(error.errno, refusal(path.parent, what, error, needed=count)) from None
