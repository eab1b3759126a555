"""A person's own modules in a task: put where they can be imported, then the program that needs them is read."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from ...schema import private
from ...schema.modules import Module, Packed
from .context import Context

_DIRECTORY = "modules"
_begin = -1


def persons_path_begins() -> None:
    """What is on ``sys.path`` from here on is the person's."""
    global _begin
    _begin = len(sys.path)


def run(modules: Iterable[Module], program: Packed, ctx: Context) -> Any:
    """Run a program that needs modules. They go with the task's directory.

    Before what else is the person's, which may be older on this machine; after all that is installed.
    """
    directory = private.make_dir(ctx.task_dir / _DIRECTORY)
    for module in modules:
        for name, data in module.files.items():
            path = directory.joinpath(*PurePosixPath(name).parts)
            private.make_dir(path.parent)
            private.write_file(path, data)
    sys.path.insert(_begin if _begin >= 0 else len(sys.path), str(directory))
    importlib.invalidate_caches()
    function, args, kwargs = program.open()
    return function(*args, ctx, **kwargs)
