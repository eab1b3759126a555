"""Messages about full or failing disks: the directory, the size of its disk, the free space, and what to do."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from .sizes import bytes_

FULL = (errno.ENOSPC, errno.EDQUOT)
_NOTHING_BYTES = 64 << 10


def refusal(path: str | Path, what: str, error: OSError, *, needed: int = 0, advice: str = "") -> str:
    """Return a sentence that explains why ``what`` could not be written below ``path``.

    ``needed`` is the number of bytes, if known. ``advice`` is an alternative to freeing space.
    """
    place = nearest(Path(path))
    reason = f"{what} cannot be written to {place}: {error.strerror or error}"
    if error.errno in FULL:
        needs = f"{bytes_(needed)} are needed, " if needed else ""
        reason += f" ({needs}{_free(place)}). Free some space"
        if place.is_relative_to("/dev/shm"):
            reason += ", or make it larger: docker run --shm-size=2g, mount -o remount,size=2g /dev/shm"
        return f"{reason}{', or ' + advice if advice else ''}"
    return f"{reason}. It must be writable{', or ' + advice if advice else ''}"


def is_full(path: Path) -> bool:
    """Return whether the disk of a directory, which need not exist, has less than 64 KiB of free space."""
    try:
        return shutil.disk_usage(nearest(path)).free < _NOTHING_BYTES
    except OSError:
        return False


def nearest(path: Path) -> Path:
    """Return the directory itself if it exists, otherwise its nearest existing ancestor."""
    while not path.is_dir() and path != path.parent:
        path = path.parent
    return path


def _free(place: Path) -> str:
    try:
        usage = shutil.disk_usage(place)
    except OSError:
        return "the free space is unknown"
    return f"{bytes_(usage.free)} of {bytes_(usage.total)} are free"


def allocate(descriptor: int, path: Path, count: int, what: str) -> None:
    """Allocate the first ``count`` bytes of a file that will be mapped. Raises OSError if there is not enough space.

    ``what`` describes the file in the error. Writing to a mapped page that the file system cannot back would end the
    process with SIGBUS.
    """
    try:
        os.posix_fallocate(descriptor, 0, count)
    except OSError as error:
        raise OSError(error.errno, refusal(path.parent, what, error, needed=count)) from None
