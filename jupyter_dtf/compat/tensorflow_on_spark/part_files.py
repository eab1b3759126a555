"""Paths and URLs as used by programs for Spark: directories of part files, which are opened with fsspec."""

from __future__ import annotations

import posixpath
from typing import Any

from ...errors import NotFound, Unavailable

_ALSO = {"s3a": "s3", "s3n": "s3", "wasb": "abfs", "adl": "abfs"}
"""fsspec's names of URL schemes, keyed by Hadoop's names."""


def opened(path: str) -> tuple[Any, str]:
    """Return ``(file system, path on it)``. Raises Unavailable if fsspec has no driver for the scheme."""
    import fsspec

    scheme, separator, rest = str(path).partition("://")
    if not separator:
        scheme, rest = "file", str(path)
    url = f"{_ALSO.get(scheme, scheme)}://{rest}"
    try:
        system, root = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError, OSError) as error:
        raise Unavailable(
            f"`path` must have a scheme with an fsspec driver on this machine, got {path!r} ({error})"
        ) from None
    return system, root.rstrip("/") or "/"


def absolute(path: str) -> str:
    """Return the URL of a path, which is valid in any working directory. Raises Unavailable."""
    system, root = opened(path)
    url: str = system.unstrip_protocol(root)
    return url


def parts(path: str) -> list[str]:
    """Return the sorted URLs of the files in a directory or matching a pattern, or of a single file.

    Metadata files, whose names start with ``_`` or ``.``, are omitted. Raises NotFound or Unavailable.
    """
    system, root = opened(path)
    if system.isdir(root):
        found = [entry["name"] for entry in system.ls(root, detail=True) if entry["type"] == "file"]
    else:
        found = system.glob(root)
    names = sorted(name for name in found if not posixpath.basename(name).startswith(("_", ".")))
    if not names:
        raise NotFound(f"`path` must contain files to read, got {path!r}")
    return [system.unstrip_protocol(name) for name in names]
