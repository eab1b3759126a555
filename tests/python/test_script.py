"""A script that runs in a fork behaves as in a separate interpreter."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .script import run

SCRIPT = """
import atexit, os, sys, threading

class Named:
    pass

atexit.register(print, "at exit")
release = threading.Event()
threading.Thread(target=lambda: (release.wait(), print("after the thread"))).start()
print(__name__, Named.__module__, sys.modules["__main__"].Named is Named, __file__ == sys.argv[0])
print(os.getcwd(), os.environ["JUPYTER_DTF_DATA_DIR"])
print("aside", file=sys.stderr)
print("tensorflow" in sys.modules)
release.set()
"""


def test_it_is_main_with_the_environment_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DTF_DATA_DIR", str(tmp_path / "of this test"))
    path = tmp_path / "own.py"
    path.write_text(SCRIPT)
    found = run(path, tmp_path)
    assert found.stdout.splitlines() == [
        "__main__ __main__ True True",
        f"{tmp_path} {tmp_path / 'of this test'}",
        "True",
        "after the thread",
        "at exit",
    ]
    assert "aside" in found.stderr


def test_one_that_fails_says_why(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text("def f():\n    raise ValueError('no luck')\n\nf()\n")
    with pytest.raises(AssertionError, match=r"own.py\", line 2, in f\n(.*\n)*ValueError: no luck"):
        run(path, tmp_path)
    path.write_text("raise SystemExit(3)\n")
    with pytest.raises(AssertionError):
        run(path, tmp_path)


def test_both_streams_are_apart(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(7)'], check=True)\n")
    found = run(path, tmp_path)
    assert isinstance(found, subprocess.CompletedProcess)
    assert found.stdout == "7\n"
