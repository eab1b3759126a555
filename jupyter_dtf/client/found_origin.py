"""Records a run's provenance when it is submitted: versions, commit, and the source code where available."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import linecache
import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..backend.machine.versions import read_versions
from ..backend.machine.working_copy import checkout_of
from ..errors import InvalidInput
from ..schema.origin import Origin, Source
from ..schema.printable import printable, shown_path
from .secrets_left_out import is_secret, without_secrets

MOST_CODE = 32_000
"""The maximum number of characters of a piece of code. Only the beginning of longer code is kept."""
MOST_PIECES = 4
_MOST_ARGUMENTS = 50
_MOST_TEXT = 200
_PACKAGE = __name__.partition(".")[0]

_versions = functools.cache(read_versions)


def origin_of(model: str = "", weights: int | None = None, data: str = "") -> Origin:
    """Return the provenance of a run that this process submits.

    This takes a fraction of a millisecond and needs no network.
    """
    here = Path.cwd()
    found = checkout_of(here)
    return Origin(
        model=printable(model, _MOST_TEXT),
        weights=weights,
        data=data,
        versions=dict(_versions()),
        directory=shown_path(str(here)),
        commit=found.commit,
        branch=printable(found.branch, _MOST_TEXT),
    )


def code_of(*programs: Any, own: Any = None) -> list[Source]:
    """Return the code of the file or cell that called this package, and of ``programs`` defined in other files.

    Code whose source cannot be read, such as that of an interactive Python session, is left out. If ``own``, the
    arguments of the program, has an attribute ``submitted_code`` (a ``Source``), only that code is returned. A magic
    passes the code of its cell in this way.
    """
    if isinstance(submitted := getattr(own, "submitted_code", None), Source):
        return [submitted]
    found: dict[str, Source] = {}
    filename = _caller()
    if (source := _of_file(filename)) is not None:
        found[filename] = source
    for program in programs:
        if len(found) < MOST_PIECES and (each := _of_function(program, found.keys())) is not None:
            found[f"{each.name}()"] = each
    return list(found.values())


def keeps_code() -> bool:
    """Return whether to record the code of runs (JUPYTER_DTF_KEEP_CODE; by default yes). Raises InvalidInput."""
    value = os.environ.get("JUPYTER_DTF_KEEP_CODE", "1")
    if value not in ("0", "1"):
        raise InvalidInput(f"JUPYTER_DTF_KEEP_CODE must be 0 or 1, got {value!r:.200}", field="JUPYTER_DTF_KEEP_CODE")
    return value == "1"


def source_of(name: str, text: str) -> Source:
    """Return code in the form in which it is recorded."""
    return Source(name=shown_path(name), text=printable(text, MOST_CODE))


def shown_arguments(arguments: Any) -> dict[str, Any]:
    """Return the arguments of a program that are worth showing: named numbers and short strings, without secrets.

    Secrets are recognized by their names, and within strings by their format (``secrets_left_out``).
    """
    if isinstance(arguments, Namespace):
        arguments = vars(arguments)
    elif dataclasses.is_dataclass(arguments) and not isinstance(arguments, type):
        arguments = {each.name: getattr(arguments, each.name) for each in dataclasses.fields(arguments)}
    if not isinstance(arguments, Mapping):
        return {}
    shown = {}
    for name, value in arguments.items():
        is_plain = isinstance(value, (bool, float, str)) or (isinstance(value, int) and abs(value) < 2**63)
        if isinstance(name, str) and is_plain and (isinstance(value, bool) or not is_secret(name)):
            shown[printable(name, _MOST_TEXT)] = _shown(value)
        if len(shown) == _MOST_ARGUMENTS:
            break
    return shown


def _shown(value: Any) -> Any:
    if isinstance(value, bool):
        return bool(value)
    if isinstance(value, str):
        return printable(without_secrets(str(value)), _MOST_TEXT)
    return int(value) if isinstance(value, int) else float(value)  # subclasses such as NumPy's cannot be encoded


def _caller() -> str:
    """Return the file of the first frame outside this package; empty if there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] != _PACKAGE:
            return frame.f_code.co_filename
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""


def _of_file(filename: str) -> Source | None:
    linecache.checkcache(filename)  # a script may have been edited and rerun; notebook cells have no file
    text = "".join(linecache.getlines(filename)) if filename else ""
    if not text.strip():
        return None
    # IPython gives its cells the names of files that do not exist.
    return source_of(os.path.abspath(filename) if os.path.isfile(filename) else "cell", text)


def _of_function(program: Any, known: Any) -> Source | None:
    program = inspect.unwrap(program) if callable(program) else program
    code = getattr(program, "__code__", None)
    if code is None or code.co_filename in known:
        return None
    if str(getattr(program, "__module__", "")).partition(".")[0] == _PACKAGE:
        return None
    try:
        text = inspect.getsource(program)
    except (OSError, TypeError):
        return None
    return source_of(program.__qualname__, text)
