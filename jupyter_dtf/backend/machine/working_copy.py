"""The Git commit that is checked out in a directory, read from the repository's files.

Git itself is not run, because a repository, perhaps another user's, can configure programs for Git to run.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MOST_BYTES = 64 << 10
"""The maximum number of bytes read from a file with one reference. ``packed-refs``, which may contain a million
references, is read line by line.
"""
_NO_FILES = "refs/heads/.invalid"
"""The content of ``HEAD`` if references are stored in tables (``reftable``) instead of files."""
_DEPTH = 64


class Checkout(NamedTuple):
    """The commit and branch that are checked out. Both are empty outside a repository; ``commit`` is also empty before
    the first commit.
    """

    commit: str = ""
    branch: str = ""


def checkout_of(directory: Path) -> Checkout:
    """Return the commit and branch checked out in the repository that contains a directory; empty if not readable."""
    try:
        for above in [directory, *directory.parents][:_DEPTH]:
            if (found := _git_dir(above / ".git")) is not None:
                return _head(found)
    except (OSError, ValueError):  # not readable, or not text
        pass
    return Checkout()


def _git_dir(path: Path) -> Path | None:
    """Return the directory with the repository's ``HEAD``; in worktrees and submodules, a file points to it."""
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
    """Return the commit of a reference in a packed file, or an empty string if it is not there."""
    wanted = os.fsencode(reference)
    if path.is_file():
        with path.open("rb") as file:
            for line in file:
                commit, _, name = line.rstrip().partition(b" ")
                if name == wanted:
                    return _commit(os.fsdecode(commit))
    return ""


def _text(path: Path) -> str:
    """Read a short file. Git treats the names in it as bytes, so they are decoded like file names."""
    with path.open("rb") as file:
        return os.fsdecode(file.read(_MOST_BYTES)).strip()


def _commit(text: str) -> str:
    return text if _COMMIT.fullmatch(text) else ""
