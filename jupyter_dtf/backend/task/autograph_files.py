"""Gives each process its own directory for the files that autograph generates, so that the files can be removed after
the process has ended. Autograph itself removes them only at exit, so a killed task leaves its files behind.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any


class _Tempfile:
    """A replacement for ``tempfile`` in autograph's loader that gives each process a directory of its own."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent

    def NamedTemporaryFile(self, **arguments: Any) -> Any:  # noqa: N802 - tempfile's own name
        directory = _of(self._parent, os.getpid())
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return tempfile.NamedTemporaryFile(dir=directory, **arguments)
        except OSError:  # the cluster is ending, or the disk is full: use the default location
            return tempfile.NamedTemporaryFile(**arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(tempfile, name)


def keep_in(parent: Path) -> None:
    """Make this process and its forks write autograph's files below ``parent``."""
    # TensorFlow 2.21: autograph writes its generated files here; the directory cannot be set otherwise.
    from tensorflow.python.autograph.pyct import loader

    loader.tempfile = _Tempfile(parent)


def forget(parent: Path, pid: int) -> None:
    """Remove the autograph files of a process that has ended."""
    shutil.rmtree(_of(parent, pid), ignore_errors=True)


def _of(parent: Path, pid: int) -> Path:
    return parent / "autograph" / str(pid)
