"""What several files of tests need and one of them makes: kept for the others in the directory of the run."""

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
"""The environment variable with the directory; nothing is kept without it."""


def each(kind: str, names: Iterable[str], make: Callable[[list[str]], dict[str, Any]]) -> dict[str, Any]:
    """Values by name: those that are kept, and what ``make`` makes of the names of the others.

    One process makes something of a kind at a time; another that needs it meanwhile waits for it.
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
