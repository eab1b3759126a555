"""The directory of the results of ended runs, and the lock with which a controller keeps it from being removed.

It is a subdirectory of the cluster's directory on the machine, which the warm process removes when all hosts on the
machine are gone. A controller that outlives the hosts keeps the results by holding a lock on them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from pathlib import Path

RESULTS = "results"
"""The name of the directory of results in the cluster's directory."""


def hold(results: Path) -> int:
    """Lock the directory of results for this process. Closing the returned descriptor unlocks it. Raises OSError."""
    descriptor = os.open(results, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def remove_but_held(directory: Path) -> None:
    """Remove a cluster's directory, but keep its results and its lock file while a live process holds the results."""
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
