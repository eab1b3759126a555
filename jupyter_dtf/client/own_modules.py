"""Reads a user's own modules and packages so that they can be sent along with runs (``upload``, ``modules=[...]``)."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from ..backend.task import own_modules
from ..errors import InvalidInput, NotFound
from ..schema.modules import Module, Packed
from ..schema.printable import shown_path
from ..schema.sizes import bytes_

MOST_BYTES = 64 << 20
MOST_FILES = 2_000
_HOW = "`modules` must be a list of .py files, package directories or imported modules"

_uploaded: dict[str, dict[str, Module]] = {}
"""The uploaded modules, keyed by cluster, then by module name."""


def upload(cluster: str, given: Iterable[Any]) -> list[str]:
    """Send modules along with every later run of this process on a cluster. Return their names.

    Raises the same errors as ``read``.
    """
    modules = read(given)
    kept = {**_uploaded.get(cluster, {}), **{module.name: module for module in modules}}
    _check_size(kept.values())
    _uploaded[cluster] = kept
    return [module.name for module in modules]


def with_modules(cluster: str, given: Iterable[Any], program: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a program that makes the modules passed for it, and those uploaded earlier, importable in its tasks.

    Return ``program`` itself if there are no modules. Raises the same errors as ``read``.
    """
    modules = {**_uploaded.get(cluster, {}), **{module.name: module for module in read(given)}}
    if not modules:
        return program
    _check_size(modules.values())
    return own_modules.run, (list(modules.values()), Packed.of(program)), {}


def read(given: Iterable[Any]) -> list[Module]:
    """Read the modules' current files. Raises NotFound, and InvalidInput for a module that tasks could not import."""
    if isinstance(given, (str, os.PathLike, ModuleType)):
        given = [given]
    try:
        return [_read(each) for each in given]
    except TypeError:
        raise InvalidInput(f"{_HOW}, got {given!r:.200}", field="modules") from None


def _read(given: Any) -> Module:
    path = _path_of(given)
    if path.is_dir():
        name = path.name
        files = dict(_files_of(path))
        if not any(file.endswith(".py") for file in files):
            raise InvalidInput(f"{_HOW}, got {shown_path(str(path))}, which has no .py file", field="modules")
    elif path.suffix == ".py" and path.is_file():
        name = path.stem
        files = {path.name: path.read_bytes()}
    elif not path.exists():
        raise NotFound(f"There is no file {shown_path(str(path))}")
    else:
        raise InvalidInput(f"{_HOW}, got {shown_path(str(path))}", field="modules")
    _check_name(name, path)
    return Module(name, files)


def _path_of(given: Any) -> Path:
    if isinstance(given, ModuleType):
        if file := getattr(given, "__file__", None):
            path = Path(file)
            return path.parent if path.name == "__init__.py" else path
        places = list(getattr(given, "__path__", []))
        if places:
            return Path(places[0])
    if not isinstance(given, (str, os.PathLike)):
        raise InvalidInput(f"{_HOW}, got {given!r:.200}", field="modules")
    path = Path(os.path.abspath(Path(given).expanduser()))
    return path.parent if path.name == "__init__.py" else path


def _files_of(directory: Path) -> Iterator[tuple[str, bytes]]:
    count = size = 0
    for root, directories, names in os.walk(directory):
        directories[:] = sorted(each for each in directories if each != "__pycache__" and not each.startswith("."))
        for name in sorted(names):
            path = Path(root) / name
            if name.startswith(".") or not path.is_file():
                continue
            count, size = count + 1, size + path.stat().st_size
            if count > MOST_FILES or size > MOST_BYTES:
                raise InvalidInput(
                    f"A package in `modules` must have at most {MOST_FILES} files and {bytes_(MOST_BYTES)} in total, "
                    f"but {shown_path(str(directory))} has more. Pass data as arguments or as files that all hosts can "
                    "read",
                    field="modules",
                )
            yield f"{directory.name}/{path.relative_to(directory).as_posix()}", path.read_bytes()


def _check_size(modules: Iterable[Module]) -> None:
    sizes = {module.name: module.size for module in modules}
    if sum(sizes.values()) > MOST_BYTES:
        told = ", ".join(f"{name} {bytes_(size)}" for name, size in sizes.items())
        raise InvalidInput(f"`modules` must have at most {bytes_(MOST_BYTES)} in total, got {told}", field="modules")


def _check_name(name: str, path: Path) -> None:
    """Raise InvalidInput if a name is not an identifier, or if tasks would import an installed module instead."""
    if not name.isidentifier():
        raise InvalidInput(f"A module's name must be an identifier, got {name!r:.100}", field="modules")
    where = ""
    if name in sys.stdlib_module_names:
        where = "in Python's standard library"
    else:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        origin = Path(spec.origin) if spec is not None and spec.origin else None
        installed = [Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")]
        if origin and path not in (origin, origin.parent) and any(origin.is_relative_to(place) for place in installed):
            where = f"installed ({shown_path(str(origin))})"
    if where:
        raise InvalidInput(
            f"{shown_path(str(path))} would not be found: a module named {name} is {where} and takes precedence. "
            "Rename your module",
            field="modules",
        )
