"""A directory by which two processes find out that they see the same files, and what is put there for both.

Who makes it puts a random word into it, which nobody else can read. Who can tell that word sees the directory: it is
no guess by the names of machines, and holds for a container, another user and a network drive as well.
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

from ...schema import private

PROGRAM = "program"
"""The name of the file that is put there."""
_WORD = "word"
_WORD_BYTES = 64
PREFIX = "program-"


class MeetingPlace:
    """One of this process's. Raises OSError where it cannot be made."""

    def __init__(self, parent: Path) -> None:
        self.directory = private.make_dir(parent / f"{PREFIX}{secrets.token_hex(8)}")
        self._word = secrets.token_hex(_WORD_BYTES // 2)
        private.write_file(self.directory / _WORD, self._word.encode())

    @property
    def word(self) -> str:
        """What who sees the directory can tell."""
        return self._word

    @property
    def program(self) -> Path:
        return self.directory / PROGRAM

    def is_seen_by(self, teller: str) -> bool:
        """Whether what somebody tells is the word."""
        return hmac.compare_digest(self._word.encode(), teller.encode())

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


def read_word(directory: str | Path) -> str:
    """The word in another process's directory; empty where it is not seen here, or is not for this user alone."""
    path = Path(directory)
    try:
        found = path.lstat()
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
        return private.read_file(path / _WORD)[:_WORD_BYTES].decode() if ours else ""
    except (OSError, ValueError):
        return ""


def answer(word: str, challenge: str) -> str:
    """What shows that a host can read the word in a directory."""
    return hashlib.sha256(f"{challenge}{word}".encode()).hexdigest() if word else ""


def create(directory: str | Path) -> int:
    """A new file for the program, for its owner alone, as a descriptor. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(Path(directory) / PROGRAM, flags, 0o600)


def write(descriptor: int, data: bytes | memoryview) -> None:
    """All of ``data``, however much of it one call takes. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def discard(directory: str | Path) -> None:
    """Take back what could not be written in full."""
    with contextlib.suppress(OSError):
        (Path(directory) / PROGRAM).unlink()
