"""Installation of the user's own modules in a task, before the program that needs them is loaded."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from ...schema import private_files
from ...schema.modules import Module, Packed
from .context import Context

_DIRECTORY = "modules"
_begin = -1


def persons_path_begins() -> None:
    """Mark that entries of ``sys.path`` added from now on are the user's."""
    global _begin
    _begin = len(sys.path)


def run(modules: Iterable[Module], program: Packed, ctx: Context) -> Any:
    """Install ``modules`` in the task's directory, and run the program that needs them.

    The modules are removed together with the task's directory. On ``sys.path``, their directory precedes the user's
    other entries, which may contain older versions of the modules on this machine, but follows all installed packages.
    """
    directory = private_files.make_dir(ctx.task_dir / _DIRECTORY)
    for module in modules:
        for name, data in module.files.items():
            path = directory.joinpath(*PurePosixPath(name).parts)
            private_files.make_dir(path.parent)
            private_files.write_file(path, data)
    sys.path.insert(_begin if _begin >= 0 else len(sys.path), str(directory))
    importlib.invalidate_caches()
    function, args, kwargs = program.open()
    return function(*args, ctx, **kwargs)
