"""A mark that lets a process on another machine determine whether it sees a directory of this machine.

The directory contains a secret that only its owner can read. A process that can answer a challenge with it sees
this very directory, not a different one with the same path.
"""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path
from typing import NamedTuple

from ...schema import private_files
from .shared_directory import answer

_WORD = ".word"
_WORD_BYTES = 64


class Mark(NamedTuple):
    """The mark of a directory. It does not contain the secret itself."""

    directory: str
    challenge: str
    expected: str

    @classmethod
    def of(cls, directory: Path) -> Mark:
        """Create a directory's mark, and its secret if it has none.

        If the secret cannot be created or read, every process counts as seeing the directory.
        """
        challenge = secrets.token_hex(16)
        try:
            private_files.own_dir(directory)
            word = _read(directory) or _make(directory)
        except OSError:
            return cls(str(directory), challenge, "")
        return cls(str(directory), challenge, answer(word, challenge))

    @property
    def is_seen(self) -> bool:
        """Whether this process sees the directory; True if that cannot be determined."""
        if not self.expected:
            return True
        try:
            word = _read(Path(self.directory))
        except OSError:
            return False
        return bool(word) and hmac.compare_digest(answer(word, self.challenge), self.expected)


def _read(directory: Path) -> str:
    try:
        return private_files.read_file(directory / _WORD)[:_WORD_BYTES].decode(errors="replace")
    except FileNotFoundError:
        return ""


def _make(directory: Path) -> str:
    """Create a directory's secret and return it. If several processes do so simultaneously, the first is kept."""
    aside = directory / f"{_WORD}.{os.getpid()}.{secrets.token_hex(4)}"
    private_files.write_file(aside, secrets.token_hex(_WORD_BYTES // 2).encode())
    try:
        os.link(aside, directory / _WORD)
    except FileExistsError:
        pass
    finally:
        aside.unlink()
    return _read(directory)
