"""Scripts as a person would run them, in a fork of a process that has imported TensorFlow and Keras.

A script of the documentation or of the examples takes longer to import these than to do what it shows.
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
    """What a script that must succeed says: it is run in the directory, with the environment of this process."""
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
    """Be the interpreter: a module ``__main__``, and what one does at its end."""
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
        traceback.print_exc()  # of an exit, too: no script that is tried here ends by one
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
