"""The command line and environment of every Python process that jupyter_dtf starts.

``python -m`` and ``python -c`` put the working directory first on ``sys.path``, so a ``numpy.py`` next to a user's
notebooks would be imported instead of NumPy. Processes started with this module never have it there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

_SAFE_PATH = (3, 11)
"""The first Python version with ``-P``, which keeps the working directory off ``sys.path``, also in children that are
started with ``multiprocessing``.
"""

_LAUNCH = """\
import sys
if sys.path[:1] == [""]:
    del sys.path[0]
import multiprocessing.util as util
flags = util._args_from_interpreter_flags
util._args_from_interpreter_flags = lambda: [*flags(), "-I"]
import runpy
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""The equivalent of ``-P`` for Python 3.10. Children started with ``multiprocessing`` run in isolated mode (``-I``)
until they receive their parent's ``sys.path``.
"""


def command(module: str, *arguments: str) -> list[str]:
    """Return the command line of ``python -m module arguments...`` without the working directory on the path."""
    if sys.version_info >= _SAFE_PATH:
        return [sys.executable, "-P", "-m", module, *arguments]
    return [sys.executable, "-c", _LAUNCH, module, *arguments]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment, updated with ``more``, for a child process.

    PYTHONPATH is kept except for empty entries and ``.``, which mean the working directory. Empty entries are often
    unintended: a PYTHONPATH that ends with a colon has one.
    """
    made = {**os.environ, **(more or {})}
    if "PYTHONPATH" in made:
        entries = [entry for entry in made["PYTHONPATH"].split(os.pathsep) if os.path.normpath(entry or ".") != "."]
        made["PYTHONPATH"] = os.pathsep.join(entries)
        if not entries:
            del made["PYTHONPATH"]
    return made
