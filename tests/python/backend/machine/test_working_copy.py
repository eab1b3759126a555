"""Which commit a directory is at, of repositories that Git itself has made."""

from __future__ import annotations

import subprocess
from pathlib import Path

from jupyter_dtf.backend.machine.working_copy import Checkout, checkout_of


def git(directory: Path, *arguments: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false"]
    command = ["git", *own, *arguments]
    return subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout.strip()


def test_what_git_has_checked_out(tmp_path: Path) -> None:
    assert checkout_of(tmp_path / "none") == Checkout()
    repository = tmp_path / "repository"
    (repository / "below").mkdir(parents=True)
    git(repository, "init", "--quiet", "--initial-branch=main")
    assert checkout_of(repository) == Checkout("", "main")
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "first")
    first = git(repository, "rev-parse", "HEAD")
    assert checkout_of(repository / "below") == Checkout(first, "main")

    git(repository, "pack-refs", "--all")
    assert not (repository / ".git/refs/heads/main").exists()
    assert checkout_of(repository) == Checkout(first, "main")

    git(repository, "worktree", "add", "--quiet", "-b", "side/way", "../tree")
    git(tmp_path / "tree", "commit", "--quiet", "--allow-empty", "-m", "second")
    second = git(tmp_path / "tree", "rev-parse", "HEAD")
    assert checkout_of(tmp_path / "tree") == Checkout(second, "side/way")
    git(tmp_path / "tree", "checkout", "--quiet", "--detach", first)
    assert checkout_of(tmp_path / "tree") == Checkout(first, "")


def test_what_is_no_repository_is_none(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all")
    assert checkout_of(tmp_path) == Checkout()
    (tmp_path / ".git").write_bytes(b"\xff\xfe")
    assert checkout_of(tmp_path) == Checkout()
