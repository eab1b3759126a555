"""Values that several test files need. The first one makes a value, and the run's directory keeps it for the others."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cloudpickle

DIRECTORY = "JUPYTER_DTF_TESTS_RUN"
"""The environment variable with the directory. Without it, nothing is kept."""


def each(kind: str, names: Iterable[str], make: Callable[[list[str]], dict[str, Any]]) -> dict[str, Any]:
    """Return a value for each name: the one that is kept, or a new one. ``make`` is called once, with all names without
    a kept value.

    Only one process at a time makes values of a kind; other processes that need some wait for it.
    """
    wanted = list(names)
    if DIRECTORY not in os.environ:
        return make(wanted)
    directory = Path(os.environ[DIRECTORY]) / "once" / kind
    directory.mkdir(parents=True, exist_ok=True)
    paths = {name: directory / hashlib.sha256(name.encode()).hexdigest() for name in wanted}
    with _alone(directory / "lock"):
        if missing := [name for name, path in paths.items() if not path.exists()]:
            for name, value in make(missing).items():
                aside = paths[name].with_suffix(".part")
                aside.write_bytes(cloudpickle.dumps(value))
                aside.rename(paths[name])
    return {name: pickle.loads(path.read_bytes()) for name, path in paths.items()}


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
