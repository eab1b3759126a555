"""Whether a process sees another machine's directory, or a different one with the same path."""

from __future__ import annotations

import shutil
from pathlib import Path

from jupyter_dtf.backend.machine.visibility_mark import Mark


def test_who_sees_the_directory_can_tell(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    mark = Mark.of(runs)
    assert mark.is_seen
    assert Mark.of(runs).is_seen, "the second cluster finds the word of the first"
    (word,) = runs.iterdir()
    assert (word.stat().st_mode & 0o777, word.read_text() in str(mark)) == (0o600, False)

    shutil.rmtree(runs)
    assert not mark.is_seen
    Mark.of(runs)
    assert not mark.is_seen, "another directory of that path"


def test_where_no_word_can_be_left_it_is_held_to_be_seen(tmp_path: Path) -> None:
    """A directory on a full disk is usually on this machine; failures to save are reported elsewhere."""
    (tmp_path / "runs").touch()
    assert Mark.of(tmp_path / "runs").is_seen
