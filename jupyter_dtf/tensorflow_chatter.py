"""Keeps TensorFlow's informational messages on standard error out of notebooks, terminals and logs.

TensorFlow's C++ code logs, at the levels INFO and WARNING, how it was built and which features this machine lacks. The
variable ``TF_CPP_MIN_LOG_LEVEL`` sets how much of this is shown (0: all, 1: no INFO, 2: no WARNING either); importing
jupyter_dtf sets it to 2 if it is not set. The setting is not yet effective while TensorFlow is being imported. During
the import, output therefore goes through a filter in a separate process, so that the output of an import that crashes
is not lost. Errors are never filtered.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

VARIABLE = "TF_CPP_MIN_LOG_LEVEL"
DEFAULT = "2"
_MODULE = "tensorflow"

_set_here = False


def hush() -> None:
    """Make TensorFlow show only errors, unless it was already imported or the user has set the log level."""
    global _set_here
    if _MODULE in sys.modules:
        return
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = DEFAULT
        _set_here = True
    if pattern() and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def speak() -> None:
    """Undo ``hush``, so that TensorFlow logs everything unless the user has set the log level."""
    global _set_here
    if _set_here:
        del os.environ[VARIABLE]
        _set_here = False
        unhook()


def unhook() -> None:
    """Stop filtering the import of TensorFlow, in a process whose standard error goes to a log."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]


def pattern() -> str:
    """Return an extended regular expression for the lines that are filtered out at the current level; empty: none."""
    level = os.environ.get(VARIABLE, "")
    kept_out = {"1": "I", "2": "IW", "3": "IW"}.get(level, "")
    if not kept_out:
        return ""
    return "|".join(
        (
            r"^WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR$",
            rf"^[{kept_out}][0-9]{{4}} [0-9:.]+ +[0-9]+ [A-Za-z0-9_./-]+:[0-9]+\] ",
            rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}} [0-9:.]+: [{kept_out}] ",
            r"^To enable the following instructions: ",  # the second line of such a message
        )
    )


class _Finder(importlib.abc.MetaPathFinder):
    """Finds TensorFlow by means of the other finders, once, and filters its import."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _MODULE:
            return None
        unhook()
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader  # later requests to the loader are unrelated to the filter
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        with filtered():
            self._loader.exec_module(module)


@contextlib.contextmanager
def filtered() -> Iterator[None]:
    """Send this process's standard error through the filter within the context, if the filter can be started."""
    grep, lines = shutil.which("grep"), pattern()
    try:
        if grep is None or not lines:
            raise OSError
        kept = os.dup(2)
    except OSError:  # standard error is closed, or there is nothing to filter
        yield
        return
    command = [grep, "--line-buffered", "-v", "-E", lines]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=kept,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that Ctrl-C does not interrupt the filter
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError:
        os.close(kept)
        yield
        return
    assert process.stdin is not None
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os.dup2(process.stdin.fileno(), 2)
    process.stdin.close()
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a process started in the meantime has the pipe open
            process.wait(5)
