"""A directory through which two processes determine that they see the same files, and exchange a program.

Its creator writes a random secret there that other users cannot read. A process that knows the secret sees the
directory. This check is more reliable than comparing machine names, and also works with containers, other users and
network drives.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import shutil
import stat
from pathlib import Path

from ...schema import private_files

PROGRAM = "program"
"""The name of the program file in the directory."""
_WORD = "word"
_WORD_BYTES = 64
PREFIX = "program-"


class SharedDirectory:
    """A directory created by this process. Raises OSError if it cannot be created."""

    def __init__(self, parent: Path) -> None:
        self.directory = private_files.make_dir(parent / f"{PREFIX}{secrets.token_hex(8)}")
        self._word = secrets.token_hex(_WORD_BYTES // 2)
        private_files.write_file(self.directory / _WORD, self._word.encode())

    @property
    def word(self) -> str:
        """The secret, which every process that sees the directory can read."""
        return self._word

    @property
    def program(self) -> Path:
        return self.directory / PROGRAM

    def is_seen_by(self, teller: str) -> bool:
        """Return whether another process, which sent ``teller`` as the secret, sees this directory."""
        return hmac.compare_digest(self._word.encode(), teller.encode())

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


def read_word(directory: str | Path) -> str:
    """Return the secret in another process's directory; empty if that is not visible, or not private to this user."""
    path = Path(directory)
    try:
        found = path.lstat()
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
        return private_files.read_file(path / _WORD)[:_WORD_BYTES].decode() if ours else ""
    except (OSError, ValueError):
        return ""


def answer(word: str, challenge: str) -> str:
    """Return the reply to a challenge, which proves knowledge of ``word``; empty if ``word`` is empty."""
    return hashlib.sha256(f"{challenge}{word}".encode()).hexdigest() if word else ""


def create(directory: str | Path) -> int:
    """Create the program file, private to its owner, and return a descriptor. Raises OSError if that fails."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(Path(directory) / PROGRAM, flags, 0o600)


def write(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of ``data``, in as many calls as it takes. Raises OSError if one fails."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def discard(directory: str | Path) -> None:
    """Remove a program file that could not be written completely."""
    with contextlib.suppress(OSError):
        (Path(directory) / PROGRAM).unlink()
