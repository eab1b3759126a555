"""Files and directories for their owner alone, whatever the umask: every process of ours makes its own by these.

And the reading of files that others may have made: what is no file is not opened, for a pipe would be waited for.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from ..errors import Unavailable

_OPEN = 0o077
"""What others may do."""


def make_dir(path: Path) -> Path:
    """Make a directory, and those above it that are missing, with mode 0700. One that is there stays as it is.

    Raises OSError.
    """
    if path.is_dir():
        return path
    make_dir(path.parent)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:  # another process was quicker
        if not path.is_dir():
            raise
    else:
        path.chmod(0o700)  # a umask may have taken more than was to be taken
    return path


def own_dir(path: Path) -> Path:
    """The same for one of ours, which is closed if it is open, where others may have made one, as in ``/tmp``.

    Raises Unavailable if it is somebody else's.
    """
    make_dir(path)
    found = path.lstat()
    if found.st_uid != os.getuid() or (stat.S_ISLNK(found.st_mode) and path.stat().st_uid != os.getuid()):
        raise Unavailable(f"A directory of jupyter_dtf must belong to its user, got {path} of uid {found.st_uid}")
    close(path.resolve())
    return path


def open_file(path: Path, flags: int = os.O_TRUNC) -> BinaryIO:
    """A file to write, with mode 0600, also if it was there and is ours."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)
    found = os.fstat(descriptor)
    if found.st_mode & _OPEN and found.st_uid == os.getuid() and stat.S_ISREG(found.st_mode):
        os.fchmod(descriptor, 0o600)
    return open(descriptor, "wb")


def open_regular(path: Path) -> BufferedReader:
    """Open a file to read it, if it is one: not a pipe or a device. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
    return open(descriptor, "rb")


def read_file(path: Path) -> bytes:
    """What is in a regular file. Raises OSError."""
    with open_regular(path) as file:
        return file.read()


def write_file(path: Path, data: bytes) -> None:
    """Write a file with mode 0600: whole or not at all. Raises OSError.

    Its room is there before anything is written: a page of a mapped file that is not ends the process that reads it.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open_file(aside) as file:
            if data:
                os.posix_fallocate(file.fileno(), 0, len(data))
            file.write(data)
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)  # it takes the room that a shorter word would do with
        raise


def close(path: Path) -> bool:
    """Take from others what they may do with a file or directory of this user's. Returns whether there was something.

    Links are left alone, and so is what is not there or not ours.
    """
    try:
        found = path.lstat()
        if found.st_uid != os.getuid() or stat.S_ISLNK(found.st_mode) or not found.st_mode & _OPEN:
            return False
        path.chmod(stat.S_IMODE(found.st_mode) & ~_OPEN)
    except OSError:  # gone meanwhile, or on a file system that has no modes
        return False
    return True


def close_tree(path: Path) -> None:
    """The same for a directory and all that is in it."""
    close(path)
    for directory, names, files in os.walk(path):
        for name in (*names, *files):
            close(Path(directory, name))
