"""Which commit of a Git repository a directory is at, read from the repository's files.

No program is started: a repository may name programs of its own for Git to run, and it may be somebody else's.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MOST_BYTES = 64 << 10
"""Of a file with one reference; ``packed-refs``, which may have a million, is gone through by lines."""
_NO_FILES = "refs/heads/.invalid"
"""What ``HEAD`` has where references lie in no files but in tables (``reftable``)."""
_DEPTH = 64


class Checkout(NamedTuple):
    """What is checked out. Both are empty outside of a repository, ``commit`` before its first commit as well."""

    commit: str = ""
    branch: str = ""


def checkout_of(directory: Path) -> Checkout:
    """What is checked out in the repository that a directory is in. What cannot be read is empty."""
    try:
        for above in [directory, *directory.parents][:_DEPTH]:
            if (found := _git_dir(above / ".git")) is not None:
                return _head(found)
    except (OSError, ValueError):  # not to be read, or no text
        pass
    return Checkout()


def _git_dir(path: Path) -> Path | None:
    """The directory with the repository's ``HEAD``; a worktree and a submodule have a file that says where it is."""
    if path.is_dir():
        return path if (path / "HEAD").is_file() else None
    if not path.is_file():
        return None
    said = _text(path)
    return (path.parent / said.removeprefix("gitdir:").strip()) if said.startswith("gitdir:") else None


def _head(git_dir: Path) -> Checkout:
    head = _text(git_dir / "HEAD")
    if not head.startswith("ref:"):
        return Checkout(_commit(head))
    reference = head.removeprefix("ref:").strip()
    if reference == _NO_FILES:
        return Checkout()
    branch = reference.removeprefix("refs/heads/")
    shared = git_dir
    if (git_dir / "commondir").is_file():
        shared = git_dir / _text(git_dir / "commondir")
    for home in (git_dir, shared):
        if (home / reference).is_file():
            return Checkout(_commit(_text(home / reference)), branch)
    return Checkout(_packed(shared / "packed-refs", reference), branch)


def _packed(path: Path, reference: str) -> str:
    """The commit of a reference among those in one file; empty where it has none."""
    wanted = os.fsencode(reference)
    if path.is_file():
        with path.open("rb") as file:
            for line in file:
                commit, _, name = line.rstrip().partition(b" ")
                if name == wanted:
                    return _commit(os.fsdecode(commit))
    return ""


def _text(path: Path) -> str:
    """A short file's text. Names in it are bytes to Git, of any encoding, as those of files are to Python."""
    with path.open("rb") as file:
        return os.fsdecode(file.read(_MOST_BYTES)).strip()


def _commit(text: str) -> str:
    return text if _COMMIT.fullmatch(text) else ""
