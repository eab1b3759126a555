"""Paths and URLs, as programs for Spark give them: directories of parts, opened by fsspec."""

from __future__ import annotations

import posixpath
from typing import Any

from ...errors import NotFound, Unavailable

_ALSO = {"s3a": "s3", "s3n": "s3", "wasb": "abfs", "adl": "abfs"}
"""Hadoop's schemes, and what fsspec calls these."""


def opened(path: str) -> tuple[Any, str]:
    """``(file system, path on it)``. Raises Unavailable where fsspec has no driver for the scheme."""
    import fsspec

    scheme, separator, rest = str(path).partition("://")
    if not separator:
        scheme, rest = "file", str(path)
    url = f"{_ALSO.get(scheme, scheme)}://{rest}"
    try:
        system, root = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError, OSError) as error:
        raise Unavailable(
            f"A path's scheme needs fsspec's driver for it on this machine. Received: {path!r} ({error})"
        ) from None
    return system, root.rstrip("/") or "/"


def parts(path: str) -> list[str]:
    """The URLs of the files of a directory, of a pattern or of one file, in order; not those that begin with ``_`` or
    ``.``, which say something of the others. Raises NotFound, Unavailable.
    """
    system, root = opened(path)
    if system.isdir(root):
        found = [entry["name"] for entry in system.ls(root, detail=True) if entry["type"] == "file"]
    else:
        found = system.glob(root)
    names = sorted(name for name in found if not posixpath.basename(name).startswith(("_", ".")))
    if not names:
        raise NotFound(f"There are no files to read. Received: {path!r}")
    return [system.unstrip_protocol(name) for name in names]
