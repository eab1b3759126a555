"""Where a controller keeps the results of ended runs, and how the warm process knows that they are still needed.

They are in the cluster's directory on the machine, which the warm process removes when all hosts there are gone. The
controller, which may outlive them, holds a lock on the results' directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from pathlib import Path

RESULTS = "results"
"""The name of the directory in the cluster's directory."""


def hold(results: Path) -> int:
    """Hold the directory of results for this process. Returns a descriptor to close at the end. Raises OSError."""
    descriptor = os.open(results, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def remove_but_held(directory: Path) -> None:
    """Remove a cluster's directory, but not the results in it, nor its own lock, while a live process holds them."""
    if not _is_held(directory / RESULTS):
        shutil.rmtree(directory, ignore_errors=True)
        return
    for path in list(directory.iterdir()):
        if path.name == RESULTS or path.name.startswith("."):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _is_held(results: Path) -> bool:
    try:
        descriptor = os.open(results, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    else:
        return False
    finally:
        os.close(descriptor)
