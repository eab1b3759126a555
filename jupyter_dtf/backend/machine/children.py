"""The command line and environment of every Python process of ours.

``python -m`` and ``python -c`` put the working directory first on ``sys.path``: a ``numpy.py`` beside somebody's
notebooks would be imported in place of NumPy. No process of ours has it there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

_SAFE_PATH = (3, 11)
"""From this version on ``-P`` does it, and what the process itself starts by ``multiprocessing`` has it too."""

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
"""The same for Python 3.10. What ``multiprocessing`` starts is told its parent's ``sys.path`` later."""


def command(module: str, *arguments: str) -> list[str]:
    """``python -m module arguments...``, without the working directory on the path."""
    if sys.version_info >= _SAFE_PATH:
        return [sys.executable, "-P", "-m", module, *arguments]
    return [sys.executable, "-c", _LAUNCH, module, *arguments]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment, ``more`` in it, for a process of ours.

    PYTHONPATH stays as a person has set it, but for empty entries and ``.``, which mean the working directory: a
    PYTHONPATH that ends with a colon has one by mistake.
    """
    made = {**os.environ, **(more or {})}
    if "PYTHONPATH" in made:
        entries = [entry for entry in made["PYTHONPATH"].split(os.pathsep) if os.path.normpath(entry or ".") != "."]
        made["PYTHONPATH"] = os.pathsep.join(entries)
        if not entries:
            del made["PYTHONPATH"]
    return made
