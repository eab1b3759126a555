"""Reads a Keras model's configuration from a file as plain data. No name in the file is looked up, no object is built,
and no code is run here.

A ``.keras`` file is a zip archive with ``config.json``; an ``.h5`` file has JSON in attributes of its root. Weights are
not read.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ....errors import InvalidInput
from ....schema import private_files

SUFFIXES = (".keras", ".h5")
MAX_CONFIG_BYTES = 64 << 20
"""The maximum size of a configuration in bytes, enough for a hundred thousand layers."""
MAX_DEPTH = 400
"""The maximum nesting depth of a configuration. A nested model adds four or five levels of JSON."""
MAX_DIGITS = 400
"""The maximum number of digits in a number, more than any float has."""
_MAX_MEMBERS = 100_000


@dataclass
class Configuration:
    """A model's configuration, as read from a file."""

    model: dict[str, Any]
    compiled: dict[str, Any] | None
    """The compile arguments; None if the model was not compiled."""
    is_legacy: bool
    """Whether ``model`` and ``compiled`` are in the format of ``.h5`` files."""


def read_configuration(path: Path) -> Configuration:
    """Read the configuration of a ``.keras`` or ``.h5`` file. Raises InvalidInput for other files, or if it is not
    valid.
    """
    if path.suffix not in SUFFIXES:
        raise InvalidInput(
            f"`path` must be a SavedModel or a file whose name ends in {' or '.join(SUFFIXES)}, got {path.name!r}",
            field="path",
        )
    with open_regular(path) as file:
        return _from_zip(path, file) if path.suffix == ".keras" else _from_hdf5(path, file)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises InvalidInput for anything else, such as a pipe, which would block."""
    try:
        return private_files.open_regular(path)
    except OSError as error:
        raise InvalidInput(
            f"`path` must be a regular file that can be read, got {path.name!r}: {error.strerror}",
            field="path",
        ) from None


def _from_zip(path: Path, file: BinaryIO) -> Configuration:
    with zipfile.ZipFile(file) as archive:
        if len(archive.namelist()) > _MAX_MEMBERS:
            raise InvalidInput(
                f"{path.name} must have at most {_MAX_MEMBERS} members, got {len(archive.namelist())}", field="path"
            )
        with archive.open("config.json") as member:
            text = member.read(MAX_CONFIG_BYTES + 1)  # do not trust the size in the archive
    model = _object(path, "config.json", text)
    compiled = model.pop("compile_config", None)
    return Configuration(model, compiled if isinstance(compiled, dict) else None, is_legacy=False)


def _from_hdf5(path: Path, file: BinaryIO) -> Configuration:
    import h5py

    # Read through Python's file object, so that no links to other files are followed; only root attributes are read.
    with h5py.File(file, "r") as content:
        model = _attribute(path, content, "model_config")
        compiled = _attribute(path, content, "training_config")
    if model is None:
        raise InvalidInput(f"{path.name} must have a model's configuration, got only weights", field="path")
    return Configuration(model, compiled, is_legacy=True)


def _attribute(path: Path, content: Any, name: str) -> dict[str, Any] | None:
    if name not in content.attrs:
        return None
    attribute = content.attrs.get_id(name)
    if attribute.shape != () or attribute.get_storage_size() > MAX_CONFIG_BYTES:
        raise InvalidInput(f"{path.name}: the attribute {name} must be a single string", field="path")
    text = content.attrs[name]
    if not isinstance(text, (str, bytes)):
        raise InvalidInput(
            f"{path.name}: the attribute {name} must be a string, got {type(text).__name__}", field="path"
        )
    return _object(path, name, text)


def _object(path: Path, what: str, text: str | bytes) -> dict[str, Any]:
    """Decode a JSON object. Raises InvalidInput if it is not valid, or is too large or too deeply nested."""

    def refused(rule: str) -> InvalidInput:
        return InvalidInput(f"{path.name}: {what} {rule}", field="path")

    if len(text) > MAX_CONFIG_BYTES:
        raise refused(f"must have at most {MAX_CONFIG_BYTES} bytes, got more")
    try:
        value = json.loads(text, parse_int=_number(int), parse_float=_number(float), parse_constant=_constant)
    except RecursionError:
        raise refused(f"must be nested at most {MAX_DEPTH} levels deep, got more") from None
    except ValueError as error:
        raise refused(f"must be JSON: {error!s:.200}") from None
    if not isinstance(value, dict):
        raise refused(f"must be a JSON object, got {type(value).__name__}")
    if depth(value) > MAX_DEPTH:
        raise refused(f"must be nested at most {MAX_DEPTH} levels deep, got {depth(value)}")
    return value


def _number(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(digits: str) -> Any:
        if len(digits) > MAX_DIGITS:
            raise ValueError(f"a number must have at most {MAX_DIGITS} digits, got {len(digits)}")
        return kind(digits)

    return read


def _constant(name: str) -> float:
    return float(name)  # Keras writes Infinity, for example for a clipping layer


def depth(value: Any) -> int:
    """Return the nesting depth of dicts and lists; 0 for a plain value."""
    deepest, waiting = 0, [(value, 0)]
    while waiting:
        item, level = waiting.pop()
        if isinstance(item, (dict, list)):
            deepest = max(deepest, level + 1)
            waiting += [(inner, level + 1) for inner in (item.values() if isinstance(item, dict) else item)]
    return deepest
