"""Creates files and directories that only their owner can access, regardless of the umask.

All our processes use these functions. Other users may have created the files that are read. Only regular files are
opened, because a pipe would block.
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
"""The permissions of the group and of other users."""


def make_dir(path: Path) -> Path:
    """Create a directory and its missing parents with mode 0700. An existing directory is not changed.

    Raises OSError.
    """
    if path.is_dir():
        return path
    make_dir(path.parent)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:  # another process has created it first
        if not path.is_dir():
            raise
    else:
        path.chmod(0o700)  # the umask may have removed too many permissions
    return path


def own_dir(path: Path) -> Path:
    """Create a directory, like ``make_dir``, at a path that other users may have created first, such as in ``/tmp``.

    Other users' access to an existing directory is removed. Raises Unavailable if it belongs to another user.
    """
    make_dir(path)
    found = path.lstat()
    if found.st_uid != os.getuid() or (stat.S_ISLNK(found.st_mode) and path.stat().st_uid != os.getuid()):
        raise Unavailable(f"A directory of jupyter_dtf must belong to its user, got {path} of uid {found.st_uid}")
    close(path.resolve())
    return path


def open_file(path: Path, flags: int = os.O_TRUNC) -> BinaryIO:
    """Open a file for writing, with mode 0600, which is also set on an existing file of this user."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)
    found = os.fstat(descriptor)
    if found.st_mode & _OPEN and found.st_uid == os.getuid() and stat.S_ISREG(found.st_mode):
        os.fchmod(descriptor, 0o600)
    return open(descriptor, "wb")


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading, not a pipe or a device. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
    return open(descriptor, "rb")


def read_file(path: Path) -> bytes:
    """Read a regular file. Raises OSError."""
    with open_regular(path) as file:
        return file.read()


def write_file(path: Path, data: bytes) -> None:
    """Write a file with mode 0600, atomically. Raises OSError.

    Its space is allocated first, because reading a page of a mapped file without allocated space would kill the
    process.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open_file(aside) as file:
            if data:
                os.posix_fallocate(file.fileno(), 0, len(data))
            file.write(data)
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)  # it takes up space that a smaller file could use
        raise


def close(path: Path) -> bool:
    """Remove other users' permissions on a file or directory of this user. Returns whether there were any.

    Links, missing files and files of other users are not changed.
    """
    try:
        found = path.lstat()
        if found.st_uid != os.getuid() or stat.S_ISLNK(found.st_mode) or not found.st_mode & _OPEN:
            return False
        path.chmod(stat.S_IMODE(found.st_mode) & ~_OPEN)
    except OSError:  # removed in the meantime, or on a file system without modes
        return False
    return True


def close_tree(path: Path) -> None:
    """Remove other users' permissions on a directory and everything in it."""
    close(path)
    for directory, names, files in os.walk(path):
        for name in (*names, *files):
            close(Path(directory, name))
