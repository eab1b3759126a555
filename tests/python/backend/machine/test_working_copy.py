"""The commit and the branch of a directory, in repositories made by Git and by hand."""

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


def test_references_of_any_number_encoding_and_form(tmp_path: Path) -> None:
    home = tmp_path / ".git"
    home.mkdir()
    (home / "HEAD").write_bytes(b"ref: refs/heads/caf\xe9\n")
    others = b"".join(b"%040x refs/heads/a%07d\n" % (n, n) for n in range(150_000))
    (home / "packed-refs").write_bytes(b"# pack-refs\n" + others + b"a" * 40 + b" refs/heads/caf\xe9\n")
    assert (home / "packed-refs").stat().st_size > 8 << 20
    assert checkout_of(tmp_path) == Checkout("a" * 40, "caf\udce9")
    (home / "HEAD").write_text("ref: refs/heads/a0000007\n")
    assert checkout_of(tmp_path) == Checkout(f"{7:040x}", "a0000007")
    (home / "HEAD").write_text("ref: refs/heads/.invalid\n")  # as Git writes it if references are stored in reftables
    assert checkout_of(tmp_path) == Checkout()


def test_what_is_no_repository_is_none(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all")
    assert checkout_of(tmp_path) == Checkout()
    (tmp_path / ".git").write_bytes(b"\xff\xfe")
    assert checkout_of(tmp_path) == Checkout()
