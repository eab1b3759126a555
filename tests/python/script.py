"""Runs scripts as a user would, in a fork of a process that has imported TensorFlow and Keras.

For a script of the documentation or an example, these imports take longer than the rest of it.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from .backend.task.gang import forked
from .patience import left_s


def run(script: Path, directory: Path, arguments: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run a script, which must succeed, in a directory and with this process's environment. Return its output."""
    said, errors = directory / "script.stdout", directory / "script.stderr"
    process = forked(_main, [str(script), *arguments], directory, dict(os.environ), said, errors)
    process.join(left_s())
    if process.is_alive():
        process.kill()
        process.join()
    found = subprocess.CompletedProcess(str(script), process.exitcode or 0, said.read_text(), errors.read_text())
    assert found.returncode == 0, found.stderr
    return found


def _main(arguments: list[str], directory: Path, environment: dict[str, str], said: Path, errors: Path) -> None:
    """Act as the interpreter: run the script as the module ``__main__``, and then do what an interpreter does at its
    end.
    """
    for path, descriptor in ((said, 1), (errors, 2)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv = arguments
    script = Path(arguments[0])
    sys.path.insert(0, str(script.parent))
    module = ModuleType("__main__")
    module.__file__ = str(script)
    sys.modules["__main__"] = module
    status = 0
    try:
        exec(compile(script.read_text(), script, "exec"), vars(module))
    except BaseException:
        traceback.print_exc()  # a SystemExit is an error, too: no tested script raises one
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
