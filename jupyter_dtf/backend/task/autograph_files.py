"""Where autograph writes the Python that it makes: it removes that at exit only, and a task that is killed has none."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any


class _Tempfile:
    """Stands for the module ``tempfile`` in autograph's loader: each process has a directory of its own."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent

    def NamedTemporaryFile(self, **arguments: Any) -> Any:  # noqa: N802 - tempfile's own name
        directory = _of(self._parent, os.getpid())
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return tempfile.NamedTemporaryFile(dir=directory, **arguments)
        except OSError:  # the cluster is ending, or its disk is full: wherever there is room
            return tempfile.NamedTemporaryFile(**arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(tempfile, name)


def keep_in(parent: Path) -> None:
    """From now on this process and its forks write these files below ``parent``."""
    # TensorFlow 2.21: autograph writes its generated files here; the directory cannot be set otherwise.
    from tensorflow.python.autograph.pyct import loader

    loader.tempfile = _Tempfile(parent)


def forget(parent: Path, pid: int) -> None:
    """Remove the files of a process that has ended."""
    shutil.rmtree(_of(parent, pid), ignore_errors=True)


def _of(parent: Path, pid: int) -> Path:
    return parent / "autograph" / str(pid)
