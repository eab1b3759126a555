"""Removes parts of a run's directory."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path


def remove_part(run_dir: Path, name: str) -> None:
    """Delete the directory ``name`` in a run's directory, and the run's directory if it is then empty."""
    shutil.rmtree(run_dir / name, ignore_errors=True)
    with contextlib.suppress(OSError):
        run_dir.rmdir()
